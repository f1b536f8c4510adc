"""The stand-in of EC2 as a program: ``python -m tests.deploy.ec2_server PORT FOLDER``, on loopback.

It is moto's, which knows no quotas, ignores the market, and can't delete versions of a launch template. So
in front of it stands a shim that writes down each request (``FOLDER/requests``, a JSON object a line),
refuses what ``FOLDER/refuse`` says (``{"action": …, "after": n, "code": …, "message": …}``) as EC2 does, and
lets versions go with their template.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple

_REFUSAL = (
    '<?xml version="1.0" encoding="UTF-8"?><Response><Errors><Error><Code>{code}</Code>'
    "<Message>{message}</Message></Error></Errors><RequestID>0</RequestID></Response>"
)
_VERSIONS_DELETED = (
    "<DeleteLaunchTemplateVersionsResponse><successfullyDeletedLaunchTemplateVersionSet/>"
    "<unsuccessfullyDeletedLaunchTemplateVersionSet/></DeleteLaunchTemplateVersionsResponse>"
)


class Shim:
    """WSGI around WSGI."""

    def __init__(self, app: Any, folder: Path) -> None:
        self._app = app
        self._folder = folder
        self._seen: dict[str, int] = {}

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(body)
        asked = dict(parse_qsl(body.decode("utf-8", "replace")))
        action = asked.get("Action", "")
        with (self._folder / "requests").open("a") as file:
            file.write(json.dumps(asked) + "\n")
        if action == "DeleteLaunchTemplateVersions":
            start("200 OK", [("Content-Type", "text/xml")])
            return [_VERSIONS_DELETED.encode()]
        refuse = self._folder / "refuse"
        if refuse.exists():
            rule = json.loads(refuse.read_text())
            if action == rule["action"]:
                self._seen[action] = self._seen.get(action, 0) + 1
                if self._seen[action] > rule["after"]:
                    start("400 Bad Request", [("Content-Type", "text/xml")])
                    return [_REFUSAL.format(**rule).encode()]
        else:
            self._seen.clear()
        answer: Iterable[bytes] = self._app(environ, start)
        return answer


def main() -> None:
    port, folder = int(sys.argv[1]), Path(sys.argv[2])
    app = DomainDispatcherApplication(create_backend_app)
    run_simple("127.0.0.1", port, Shim(app, folder), threaded=True)


if __name__ == "__main__":
    main()
