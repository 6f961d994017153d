"""A small property fuzzer for where schemathesis cannot be had: python3 and nothing else. Calls operations with what fits their schemas and
with what does not, and compares status, type and body of the answers with what is described."""
import http.client, json, random, re

TEXTS = ["", "a", "x" * 64, "x" * 65, "é" * 32, "é" * 128, "\u0001", "𝄞", "x" * 257, "x" * 1025, "0" * 24]
JUNK = [None, True, False, 0, -1, 1.5, 1e300, 2 ** 63, "", "text", [], [1], {}, {"a": []}, [["a"]]]
TYPES = {"string": str, "array": list, "object": dict, "boolean": bool, "null": type(None)}


def request(port, method, path, bearer=None, body=None, timeout=10):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
        return response.status, response.headers, response.fp.readline() if is_stream else response.read()
    finally:
        connection.close()


def resolved(schema, root):
    while "$ref" in schema:
        name = schema["$ref"].split("/")
        schema = root["components"][name[2]][name[3]]
    return schema


def faults(value, schema, root, at="body"):
    """What of `value` is not as `schema` says."""
    schema = resolved(schema, root)
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    if types and not any(is_of(value, name) for name in types):
        return [f"{at}: {value!r:.80} is no {'/'.join(types)}"]
    found = []
    for word in ("anyOf", "oneOf"):
        if word in schema and all(faults(value, part, root, at) for part in schema[word]):
            found.append(f"{at}: fits nothing of {word}")
    if "enum" in schema and value not in schema["enum"] or "const" in schema and value != schema["const"]:
        found.append(f"{at}: {value!r:.80} is not among the values")
    if isinstance(value, str):
        if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
            found.append(f"{at}: {len(value)} characters")
        if len(value.encode()) > schema.get("x-utf8BytesMax", 1 << 30) or not re.search(schema.get("pattern", ""), value):
            found.append(f"{at}: {value!r:.80}: too many bytes, or not by the pattern")
    if isinstance(value, (int, float)) and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        found.append(f"{at}: {value} is out of range")
    if isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            found.append(f"{at}: {len(value)} items")
        found += [fault for n, item in enumerate(value) for fault in faults(item, schema.get("items", {}), root, f"{at}[{n}]")]
    if isinstance(value, dict):
        found += [f"{at}: {name} is missing" for name in schema.get("required", []) if name not in value]
        if schema.get("additionalProperties") is False:
            found += [f"{at}: {name} is unknown" for name in value if name not in schema["properties"]]
        for name, part in schema.get("properties", {}).items():
            found += faults(value[name], part, root, f"{at}.{name}") if name in value else []
    return found


def is_of(value, name):
    if name in ("integer", "number"):
        return isinstance(value, (int, float)) and not isinstance(value, bool) and (name == "number" or value == int(value))
    return isinstance(value, TYPES[name])


def draw(schema, root, chance):
    """Something that is likely to fit; edges more often than the middle."""
    schema = resolved(schema, root)
    if chance.random() < 0.08:
        return chance.choice(JUNK)
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return draw(chance.choice(schema[word]), root, chance)
    if "const" in schema or "enum" in schema:
        return chance.choice(schema.get("enum", [schema.get("const")]))
    types = schema.get("type", "object")
    kind = types if isinstance(types, str) else chance.choice(types)
    if kind == "object":
        fields = schema.get("properties", {})
        wanted = [name for name in fields if chance.random() < (0.97 if name in schema.get("required", []) else 0.3)]
        return {name: draw(fields[name], root, chance) for name in wanted}
    if kind == "array":
        low, high = schema.get("minItems", 0), schema.get("maxItems", 5)
        count = chance.choice([low, low + 1, min(high, 5), high] + ([high + 1] if chance.random() < 0.1 else []))
        return [draw(schema["items"], root, chance) for _ in range(count)]
    if kind == "integer":
        low, high = schema.get("minimum", 0), schema.get("maximum", 1 << 31)
        return chance.choice([low, high, chance.randint(low, high)] + ([low - 1, high + 1] if chance.random() < 0.2 else []))
    return {"string": chance.choice(TEXTS), "boolean": chance.random() < 0.5}.get(kind)


def answer_faults(operation, answer, root):
    status, headers, body = answer
    described = operation["responses"].get(str(status))
    if described is None or status == 500:
        return [f"{status} is not described: {body!r:.200}"]
    if "$ref" in described:
        described = root["components"]["responses"][described["$ref"].split("/")[-1]]
    content_type = headers.get("content-type", "").split(";")[0]
    if content_type not in described.get("content", {content_type: {}}):
        return [f"{status} as {content_type}"]
    required = [name for name, header in described.get("headers", {}).items() if header.get("required") and name not in headers]
    found = [f"{status} without {name}" for name in required]
    if content_type.endswith("json"):
        found += faults(json.loads(body), described["content"][content_type].get("schema", {}), root)
    return found


def cases(method, operation, root, chance, count):
    """Bodies, and whether the description allows each."""
    if method == "get":
        return [(None, True)]
    media = operation["requestBody"]["content"]["application/json"]["schema"]
    bodies = [draw(media, root, chance) for _ in range(count * 4)] + JUNK
    return [(json.dumps(body), not faults(body, media, root)) for body in bodies] + [("{", False), ("\udcff", False)]


def fuzz(root, run, arguments):
    chance = random.Random(arguments.seed)
    failures, calls, called = [], 0, 0
    for path, item in root["paths"].items():
        for method in [m for m in ("get", "post") if m in item and item[m]["tags"][0] in run.tags]:
            operation, called = item[method], called + 1
            for body, fits in cases(method, operation, root, chance, arguments.examples):
                sent = None if body is None else body.encode("utf-8", "surrogateescape")
                answer = request(run.port, method.upper(), path, run.bearer, sent)
                calls += 1
                found = answer_faults(operation, answer, root)
                if not fits and answer[0] == 200:
                    found.append("taken, though it does not fit the schema")
                failures += [f"{method.upper()} {path} {body!r:.300}: {fault}" for fault in found]
            if operation.get("security") != []:
                answer = request(run.port, method.upper(), path, None, b"{}" if method == "post" else None)
                failures += [] if answer[0] == 401 else [f"{path} without a token: {answer[0]}"]
            answer = request(run.port, "DELETE", path, run.bearer)
            failures += [] if answer[0] == 405 and "allow" in answer[1] else [f"DELETE {path}: {answer[0]}"]
            calls += 2
    print(f"{run.name}: {called} of {run.count} operations, {calls} calls, {len(failures)} failures", flush=True)
    print("\n".join(failures[:20]), end="\n" if failures else "")
    return not failures and called == run.count
