"""Moves a user's account to another name, with the Python client that is generated from /openapi.json.

    .build-python-client/bin/python move_account.py CLIENTS_URL OPS_URL TOKEN OLD NEW

TOKEN has the role admin. Prints a JSON object of what was moved. Exits with 1 if an answer is not the one that is described.
"""
import importlib.util, json, sys, tempfile, urllib.request
from importlib.machinery import SourceFileLoader
from pathlib import Path

GENERATOR = Path(__file__).resolve().parents[1] / "OpenAPI" / "python-client"
loader = SourceFileLoader("python_client", str(GENERATOR))
python_client = importlib.util.module_from_spec(importlib.util.spec_from_loader("python_client", loader))
loader.exec_module(python_client)


class BackEnd:
    def __init__(self, generated, clients, ops, token):
        client = lambda url: generated.AuthenticatedClient(base_url=url, token=token, raise_on_unexpected_status=True)
        self.models, self.clients, self.ops = generated.models, client(clients), client(ops)

    def call(self, operation, tag="status", **fields):
        """The answer of an operation: an object of the generated type."""
        name = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in operation)
        module = importlib.import_module(f"generated.api.{tag}.{name}")
        body = getattr(self.models, f"{operation[0].upper()}{operation[1:]}Body")(**fields)
        response = module.sync_detailed(client=self.clients if tag == "status" else self.ops, body=body)
        if response.status_code != 200 or response.parsed is None:
            sys.exit(f"{operation}: {response.status_code} {response.content!r}")
        return response.parsed

    def friends(self, user):
        friends, cursor = [], {}
        while True:
            page = self.call("getFriendList", as_user=user, limit=2, **cursor)
            friends += page.friend_list
            if not page.cursor:
                return friends
            cursor = {"cursor": page.cursor}

    def take(self, user, rows):
        """Puts rows into a user's list. Each is a user ID, a remark and the time of the friendship."""
        item = self.models.ImportFriendsBodyFriendsItem
        answer = self.call("importFriends", as_user=user, friends=[item(user_id=id, remark=remark, add_time=time) for id, remark, time in rows])
        return {row.user_id: row.result_code for row in answer.result_list}

    def move(self, old, new):
        friends = self.friends(old)
        profile = self.call("getSelfProfile", as_user=old).profile
        visibility = self.call("getVisibility", as_user=old)
        blocked = self.call("getBlackList", as_user=old).user_i_ds
        # The rules come first: nobody sees the new account earlier than the old one.
        kind = self.models.SetVisibilityBodyVisibilityType0(visibility.visibility.value)
        self.call("setVisibility", as_user=new, visibility=kind, user_i_ds=visibility.user_i_ds, invisible=visibility.invisible)
        blocks = {row.user_id: row.result_code for row in self.call("addBlackList", as_user=new, user_i_ds=blocked).result_list}
        self.call("modifySelfProfile", as_user=new, values=self.models.ModifySelfProfileBodyValues.from_dict({"Nick": profile.nick}))
        imported = self.take(new, [(friend.user_id, friend.remark, friend.add_time) for friend in friends])
        backwards = {}
        for friend in friends:
            of_old = next((other for other in self.friends(friend.user_id) if other.user_id == old), None)
            if of_old:
                backwards[friend.user_id] = self.take(friend.user_id, [(new, of_old.remark, of_old.add_time)])[new]
        deleted = [row.user_id for row in self.call("deleteAllFriends", as_user=old, del_type=2).result_list]
        self.call("kick", "operators", user_id=old, reason="moved")
        return {"imported": imported, "backwards": backwards, "blocks": blocks, "deleted": deleted}


def main():
    clients, ops, token, old, new = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        document = urllib.request.urlopen(f"{clients}/openapi.json", timeout=10).read()
        generated, complaints = python_client.generate(Path(folder), document)
        if complaints:
            sys.exit(complaints)
        print(json.dumps(BackEnd(generated, clients, ops, token).move(old, new)))


main()
