"""What a JSON schema cannot say about the API's requests, and a check that schemathesis has not: the data of events."""
import hashlib, json, os, re

import jsonschema_rs
import schemathesis

CALLER = os.environ["FUZZ_CALLER"]


def resolved(schema, root):
    while "$ref" in schema:
        target = root
        for name in schema["$ref"].removeprefix("#/").split("/"):
            target = target[name]
        schema = target
    return schema


def fits(value, schema, root):
    """False where a text is as many characters long as maxLength allows, but more bytes than x-utf8BytesMax does."""
    schema = resolved(schema, root)
    if not all(fits(value, alternative, root) for alternative in schema.get("anyOf", [])):
        return False
    bound = schema.get("x-utf8BytesMax")
    if isinstance(value, str) and bound is not None:
        return len(value) > bound or len(value.encode("utf-8", "replace")) <= bound
    if isinstance(value, dict):
        return all(fits(value[name], field, root) for name, field in schema.get("properties", {}).items() if name in value)
    if isinstance(value, list):
        return all(fits(item, schema.get("items", {}), root) for item in value)
    return True


def is_webhook(settings):
    """False for a receiver without a secret, for one without TLS, and for hosts and ports that the pattern allows and no address has."""
    url, secret = settings.get("webhook.url"), settings.get("webhook.secret")
    if url and isinstance(url, str):
        port = re.match(r"https://[^\[/?:]+(?::(\d+))?(?:[/?]|$)", url)
        return isinstance(secret, str) and bool(port) and 1 <= int(port[1] or 443) <= 65535
    # An earlier call may have set the URL.
    return "webhook.secret" not in settings or secret is not None or "webhook.url" in settings


def is_for_this_caller(operation, body):
    """False for what is refused because of who asks, or because of what was said before."""
    if not isinstance(body, dict):
        return True
    if CALLER == "user" and isinstance(body.get("asUser"), str):
        return False
    # Only a back end adds friends without their approval (403).
    if CALLER == "user" and operation == "addFriend" and body.get("force") is True:
        return False
    # Only a back end may call these (403).
    if CALLER == "user" and operation in ("checkBlackList", "importFriends", "deleteAllFriends"):
        return False
    # A made-up session is not open (6017).
    if operation in ("renew", "alive"):
        return False
    # Nobody is a friend of itself (6017).
    about_others = (
        "addFriend", "doResponse", "deleteFriends", "checkFriends", "modifyFriend", "addBlackList", "deleteBlackList",
        "checkBlackList")
    if operation in about_others and isinstance(body.get("asUser"), str):
        users = body["userIDs"] if isinstance(body.get("userIDs"), list) else []
        if body["asUser"] in [body.get("userID"), *users]:
            return False
    # A friend occurs once, is not the caller, and has no custom fields, because the app declares none (6017).
    if operation == "importFriends" and isinstance(body.get("friends"), list):
        friends = [friend for friend in body["friends"] if isinstance(friend, dict)]
        users = [friend["userID"] for friend in friends if isinstance(friend.get("userID"), str)]
        if len(set(users)) < len(users) or body.get("asUser") in users or any(friend.get("custom") for friend in friends):
            return False
    # A made-up cursor names a list that no node has (50001).
    if operation == "getFriendList" and isinstance(body.get("cursor"), str) and not body["cursor"].startswith("0" * 24):
        return False
    # The app declares no custom fields (6017).
    if operation in ("modifyFriend", "modifySelfProfile") and isinstance(body.get("values"), dict) and any(name.startswith("Custom_") for name in body["values"]):
        return False
    # A subscription to profiles has no statuses (6017).
    if operation == "subscribeUserStatus" and body.get("sync") is True and body.get("subscribeType") in (2, 4):
        return False
    if CALLER != "operator":
        return True
    if isinstance(body.get("app"), str) and body["app"] != "operated":
        return False
    settings = body.get("settings")
    if operation != "setAppPolicy" or not isinstance(settings, dict):
        return True
    if not is_webhook(settings):
        return False
    shortest, longest = (settings.get(f"subscription.ttl{end}", "absent") for end in ("Min", "Max"))
    if isinstance(shortest, (int, float)) and isinstance(longest, (int, float)):
        return shortest <= longest
    return shortest == longest or not {type(shortest), type(longest)} <= {int, float, type(None), str}


@schemathesis.hook
def map_case(context, case):
    """Names each call by its body: the same key with another body would be refused (6017)."""
    key = (case.headers or {}).get("Idempotency-Key")
    if isinstance(key, str) and re.fullmatch("[!-~]{1,64}", key):
        call = case.operation.definition.raw["operationId"] + repr(case.body)
        case.headers["Idempotency-Key"] = hashlib.sha256(call.encode("utf-8", "replace")).hexdigest()
    return case


@schemathesis.hook
def filter_case(context, case):
    root, raw = case.operation.schema.raw_schema, case.operation.definition.raw
    body = raw.get("requestBody")
    if body and isinstance(case.body, dict):
        if not fits(case.body, body["content"]["application/json"]["schema"], root):
            return False
    if not is_for_this_caller(raw["operationId"], case.body):
        return False
    if CALLER == "user" and "asUser" in (case.query or {}):
        return False
    for parameter in raw.get("parameters", []):
        values = (case.query if parameter["in"] == "query" else case.headers) or {}
        if parameter["name"] in values and not fits(values[parameter["name"]], parameter["schema"], root):
            return False
    return True


@schemathesis.check
def event_data_conformance(context, response, case):
    """The data of an event is JSON that fits the schema of its event."""
    if "text/event-stream" not in response.headers.get("content-type", [""])[0]:
        return
    root = case.operation.schema.raw_schema
    for event in response.content.decode().split("\n\n")[:-1]:
        # Not splitlines(), which also splits at U+0085 and U+2028: a user's name may contain them.
        fields = dict(line.split(": ", 1) for line in event.split("\n") if ": " in line and not line.startswith(":"))
        if "event" not in fields:
            continue
        schema = {"$ref": f"#/components/schemas/{fields['event']}", "components": root["components"]}
        errors = [error.message for error in jsonschema_rs.Draft202012Validator(schema).iter_errors(json.loads(fields["data"]))]
        assert not errors, f"{fields['event']}: {errors[0]}"
