-- Gives each new job a short lease, so that it is planned before Slurm starts it.
--
-- Only while the daemon's heartbeat file is fresh, only in partitions that it names there (those in
-- mode enforce, none during a pause), and only on jobs without a begin time of their own: a daemon
-- that is down or observes changes nothing, and the lease lapses by itself. The note in the
-- AdminComment says that the begin time is not the user's. Reads one small file, asks nobody.
--
-- Puts ##SLURM_EXT lines of scripts into the job's comment, whether a daemon lives or not.
--
-- Install: JobSubmitPlugins=lua in slurm.conf, this file and slurm_ext_annotate.lua beside it; set
-- the two values below.

local HEARTBEAT = "/run/slurm_ext/heartbeat"
local PARTITIONS = nil -- nil: all in mode enforce, or a table such as { gpu = true, debug = true }

local HERE = string.match(debug.getinfo(1, "S").source, "^@(.*/)") or "/etc/slurm/"

local function annotate(job_desc)
    if not job_desc.script or job_desc.script == "" then return end
    local merged = dofile(HERE .. "slurm_ext_annotate.lua").comment_for(
        job_desc.comment, job_desc.script, function(text) slurm.log_user("%s", text) end)
    if merged then job_desc.comment = merged end
end

local function read_heartbeat(now)
    local file = io.open(HEARTBEAT, "r")
    if not file then return nil end
    local at, interval, names = string.match(file:read(65536) or "", "^(%d+) (%d+) (%S+)")
    file:close()
    at, interval = tonumber(at), tonumber(interval)
    if not at or now - at > 3 * interval or at - now > interval then return nil end
    local enforced = {}
    for name in string.gmatch(names, "[^,]+") do enforced[name] = true end
    return interval, enforced
end

-- Exclusive or without bit operators: Slurm may be linked with Lua 5.1, which has none.
local function bxor(a, b)
    local result, place = 0, 1
    while a > 0 or b > 0 do
        if a % 2 ~= b % 2 then result = result + place end
        a, b, place = math.floor(a / 2), math.floor(b / 2), place * 2
    end
    return result
end

local function crc32(text)
    local crc = 4294967295
    for i = 1, #text do
        crc = bxor(crc, string.byte(text, i))
        for _ = 1, 8 do
            local odd = crc % 2 == 1
            crc = math.floor(crc / 2)
            if odd then crc = bxor(crc, 3988292384) end
        end
    end
    return 4294967295 - crc
end

local function note(begin_s)
    local text = string.format("lease:%d;begin:0;held:0;sf:0", begin_s)
    return string.format("[slurm_ext;%s;crc:%08x]", text, crc32(text))
end

local function partition_of(job_desc, part_list)
    if job_desc.partition then return job_desc.partition end
    for name, part in pairs(part_list or {}) do
        if part.flag_default == 1 then return name end
    end
    return ""
end

local function ours(job_desc, part_list, enforced)
    if job_desc.begin_time and job_desc.begin_time ~= 0 then return false end
    if job_desc.reservation and job_desc.reservation ~= "" then return false end
    if job_desc.script == nil or job_desc.script == "" then return false end -- interactive
    if string.find(job_desc.comment or "", "slurm_ext:off", 1, true) then return false end
    local any = false
    for name in string.gmatch(partition_of(job_desc, part_list), "[^,]+") do
        if not enforced[name] or (PARTITIONS and not PARTITIONS[name]) then return false end
        any = true
    end
    return any
end

function slurm_job_submit(job_desc, part_list, submit_uid)
    pcall(annotate, job_desc)
    local now = os.time()
    local fine, interval, enforced = pcall(read_heartbeat, now)
    if fine and interval and ours(job_desc, part_list, enforced) then
        local begin_s = now + 2 * interval + 2
        job_desc.begin_time = begin_s
        local before = job_desc.admin_comment
        if before and before ~= "" then
            job_desc.admin_comment = before .. " " .. note(begin_s)
        else
            job_desc.admin_comment = note(begin_s)
        end
    end
    return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
    return slurm.SUCCESS
end

return slurm.SUCCESS
