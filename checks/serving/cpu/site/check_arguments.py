"""Says why the server refuses lists of arguments as it starts, before it loads a model.

The lists as JSON on standard input; on the last line of standard output a JSON list with a reason
or null for each.
"""

from __future__ import annotations

import json
import sys

from sglang.srt.server_args import prepare_server_args


def _refusal(arguments: list[str]) -> str | None:
    try:
        server_args = prepare_server_args(arguments)
        server_args.resolve_once()
        server_args.check_server_args()
    except ValueError as error:
        return str(error)
    return None


if __name__ == "__main__":
    print(json.dumps([_refusal(arguments) for arguments in json.load(sys.stdin)]))  # noqa: T201
