-- sbatch understands ##SLURM_EXT lines: they become part of the job's comment, and what is wrong
-- is told at once, at the user's own terminal. Nothing is ever refused.
--
-- Install on login nodes: CliFilterPlugins=lua in slurm.conf, this file and slurm_ext_annotate.lua
-- beside it. Where job_submit.lua is installed on the controller it does the same there, also for
-- scripts from standard input; both together do no harm.

local HERE = string.match(debug.getinfo(1, "S").source, "^@(.*/)") or "/etc/slurm/"
local MAX_HEAD = 65537

local function head_of(path)
    local file = io.open(path, "r")
    if not file then return nil end
    local text = file:read(MAX_HEAD)
    file:close()
    return text
end

local function annotate(options)
    if options["type"] ~= "sbatch" or options["wrap"] then return end
    local argv = options["argv"]
    local script = type(argv) == "table" and argv[1] and head_of(argv[1])
    if not script then return end
    local merged = dofile(HERE .. "slurm_ext_annotate.lua").comment_for(
        options["comment"], script, function(text) slurm.log_error("%s", text) end)
    if merged then options["comment"] = merged end
end

function slurm_cli_setup_defaults(options, early_pass)
    return slurm.SUCCESS
end

function slurm_cli_pre_submit(options, pack_offset)
    pcall(annotate, options)
    return slurm.SUCCESS
end

function slurm_cli_post_submit(offset, job_id, step_id)
    return slurm.SUCCESS
end

return slurm.SUCCESS
