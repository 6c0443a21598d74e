-- Puts the ##SLURM_EXT lines of a batch script into the job's comment. Used by job_submit.lua and
-- cli_filter.lua, which load it from their own directory: install it beside them.
--
-- Read as sbatch reads #SBATCH: up to the first line that is neither empty nor a remark. Nothing is
-- ever refused here. What is wrong is told to the user; the daemon then treats the job as plain.

local M = {}

local MAX_HEAD, MAX_COMMENT = 65536, 1024

-- The keys of slurm_ext/annotate/schema.json.
M.KEYS = {
    version = true, scaling = true, gpus = true, sizes = true, logical_workers = true,
    signal = true, signal_to = true, grace = true, checkpoint_every = true, restart_cost = true,
    preemptible = true, deadline = true, family = true, work = true, speed = true, theta = true,
    sensitivity = true, cpus_per_gpu = true, mem_per_gpu = true, communication = true,
    model_size = true, locality = true, gpu_mem = true, debug = true,
}

local function visible(text)
    return (string.gsub(string.sub(text, 1, 40), "[^\32-\126]", "?"))
end

local function add_pieces(line, number, pieces, problems)
    local body = string.gsub(string.sub(line, 12), "%s#.*$", "")
    for piece in string.gmatch(body, "[^,%s]+") do
        local key, value = string.match(piece, "^([^=]+)=(.+)$")
        if not key and M.KEYS[piece] then key, value = piece, "true" end
        if not key or string.find(value, "[^%w%._%+%-:/]") then
            table.insert(problems, string.format("line %d: %s is not key=value", number, visible(piece)))
        elseif not M.KEYS[key] then
            table.insert(problems, string.format("line %d: unknown key %s", number, visible(key)))
        else
            table.insert(pieces, key .. "=" .. value)
        end
    end
end

-- The pieces of all lines as one shorthand (nil if there are none), and a list of problems.
function M.from_script(script)
    local pieces, problems, number, at = {}, {}, 0, 1
    while at <= #script do
        local stop = string.find(script, "\n", at, true) or #script + 1
        if stop > MAX_HEAD then break end
        local line = string.gsub(string.sub(script, at, stop - 1), "\r+$", "")
        number, at = number + 1, stop + 1
        if string.find(line, "^%s*[^#%s]") then break end
        if string.find(line, "^##SLURM_EXT%s") then add_pieces(line, number, pieces, problems) end
    end
    if #pieces == 0 then return nil, problems end
    return table.concat(pieces, ","), problems
end

-- The comment with the script's annotation after it; nil if it stays as it is. An annotation (or
-- slurm_ext:off) in the comment replaces the lines.
function M.comment_for(comment, script, tell)
    comment = comment or ""
    if string.find(comment, "slurm_ext:", 1, true) then return nil end
    local body, problems = M.from_script(script)
    for _, problem in ipairs(problems) do tell("slurm_ext: " .. problem .. "; the job is submitted as a plain one") end
    if not body or #problems > 0 then return nil end
    local merged = (string.find(comment, "%S") and comment .. " " or "") .. "slurm_ext:" .. body
    if #merged > MAX_COMMENT then
        tell("slurm_ext: comment and annotation are longer than 1024 bytes; the job is submitted as a plain one")
        return nil
    end
    return merged
end

return M
