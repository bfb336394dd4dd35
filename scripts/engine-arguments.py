"""Prints the arguments that an installed vLLM or SGLang accepts, as its own parser reports them, and the names that its registries have.

Usage, with the Python of its environment (docs/operations/engines.md):
  python scripts/engine-arguments.py vllm >test/fixtures/engine-arguments/vllm-VERSION.json
"""

import argparse
import json
import sys


def vllm():
    from vllm import __version__
    from vllm.entrypoints.cli.serve import make_arg_parser
    from vllm.model_executor.layers.quantization import QUANTIZATION_METHODS
    from vllm.reasoning import ReasoningParserManager
    from vllm.tool_parsers import ToolParserManager
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    return {
        "version": __version__,
        "options": options_of(make_arg_parser(FlexibleArgumentParser())),
        "tools": sorted(ToolParserManager.list_registered()),
        "reasoning": sorted(ReasoningParserManager.list_registered()),
        "quantizations": sorted(QUANTIZATION_METHODS),
    }


def sglang():
    from sglang.srt.server_args import ServerArgs
    from sglang.version import __version__

    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    return {"version": __version__, "options": options_of(parser)}


def options_of(parser):
    actions = [action for action in parser._actions if not isinstance(action, argparse._HelpAction)]
    # Sets have no order, and versions declare options in different ones.
    return sorted(map(option_of, actions), key=lambda option: (option["names"] or [""])[0])


def option_of(action):
    option = {"names": action.option_strings, "values": 1 if action.nargs is None else action.nargs}
    if action.type is not None:
        option["type"] = getattr(action.type, "__name__", type(action.type).__name__)
    if action.choices is not None:
        choices = list(action.choices)
        option["choices"] = sorted(choices, key=str) if isinstance(action.choices, (set, frozenset)) else choices
    if isinstance(action.default, (str, int, float, bool)):
        option["default"] = action.default
    return option


known = {"vllm": vllm, "sglang": sglang}
record = known[sys.argv[1]]()
# Engines write their own lines to the standard output.
print()
print(json.dumps(record))
