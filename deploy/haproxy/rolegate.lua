-- Asks rolegate about a request: the action `http-request lua.rolegate`. What rolegate denies is answered here. What it
-- allows has the variable `txn.rolegate_allowed` afterwards; haproxy.cfg denies everything else.

local ROLEGATE = "http://127.0.0.1:9193/"
-- Of each of the four tries that HAProxy makes.
local TIMEOUT_MS = 2000

-- The headers that the policy sets. The application gets rolegate's, or none.
local SET = { "x-user", "x-roles", "x-identity" }

-- Headers that are about the connection or the body, which rolegate does not get.
local NOT_SENT = {
    "connection", "content-length", "expect", "host", "keep-alive", "proxy-connection", "te", "trailer",
    "transfer-encoding", "upgrade",
}

-- Headers of rolegate's answer that are about its own connection.
local NOT_ANSWERED = {
    connection = true, ["content-length"] = true, date = true, ["keep-alive"] = true, ["transfer-encoding"] = true,
}

-- The lines of a header, in their order. HAProxy counts them from 0, and reads lists in the order from 1.
local function lines_of(values)
    local lines = {}
    for index = 0, #values do
        lines[index + 1] = values[index]
    end
    return lines
end

local function deny(txn, status, headers, body)
    txn:done(txn:reply { status = status, headers = headers, body = body })
end

core.register_action("rolegate", { "http-req" }, function(txn)
    -- The path and query, also of a request in absolute form or over HTTP/2.
    local uri, host = txn.sf:pathq(), txn.sf:req_hdr("host")
    if uri == "" or host == "" then
        return deny(txn, 400)
    end
    -- The application gets what is decided.
    txn.http:req_set_uri(uri)

    local headers = {}
    for name, values in pairs(txn.http:req_get_headers()) do
        headers[name] = lines_of(values)
    end
    for _, name in ipairs(NOT_SENT) do
        headers[name] = nil
    end
    headers["x-original-method"] = { txn.sf:method() }
    headers["x-original-host"] = { host }
    headers["x-original-uri"] = { uri }
    headers["x-real-ip"] = { txn.sf:src() }

    local answer = core.httpclient():get { url = ROLEGATE, headers = headers, timeout = TIMEOUT_MS }
    local status = answer and answer.status or 0
    if status == 200 then
        for _, name in ipairs(SET) do
            local values = answer.headers[name]
            txn.http:req_del_header(name)
            if values and values[0] ~= "" then
                txn.http:req_add_header(name, values[0])
            end
        end
        txn:set_var("txn.rolegate_allowed", true)
        return
    end

    if status ~= 400 and status ~= 401 and status ~= 403 and status ~= 413 then
        return deny(txn, 503)
    end
    local passed_on = {}
    for name, values in pairs(answer.headers) do
        if not NOT_ANSWERED[name] then
            passed_on[name] = lines_of(values)
        end
    end
    return deny(txn, status, passed_on, answer.body)
end)
