import { whyArgsRefused, whyStoredArgsRefused } from "../../proto/engine-args.ts";
import type { Engine, WeightsSource } from "./deployment.ts";
import { extraArgRefused } from "./errors.ts";

/** Engine and model that the arguments apply to. */
export interface ArgsReader {
  readonly engine: Engine;
  readonly format?: WeightsSource["format"] | undefined;
}

/** Joins `--name`, `value` to `--name=value`, the form that is stored and sent to agents. */
export function joinArgs(args: readonly string[]): readonly string[] {
  const joined: string[] = [];
  for (const arg of args) {
    const last = joined.at(-1);
    const isValue = !arg.startsWith("--") && last?.startsWith("--") === true && !last.includes("=");
    if (isValue) joined[joined.length - 1] = `${last}=${arg}`;
    else joined.push(arg);
  }
  return joined;
}

/** Checks the caller's arguments. Throws extraArgRefused for the first one without effect, with the reason. */
export function checkExtraArgs(args: readonly string[], { engine, format }: ArgsReader): readonly string[] {
  const why = whyArgsRefused(isGraph({ engine, format }) ? "stoker-onnx" : engine, args);
  if (why !== undefined) throw extraArgRefused(why);
  return withoutContradiction(args, engine);
}

/** Checks only combinations with kept arguments: older rows contain some that are refused now. */
export function checkKeptArgs(args: readonly string[], { engine }: ArgsReader): readonly string[] {
  const why = whyStoredArgsRefused(engine, args);
  if (why !== undefined) throw extraArgRefused(why);
  return withoutContradiction(args, engine);
}

/** Pairs that prevent an engine from starting (of our runtime: runtime/engine-options.ts, runtime/config.ts). */
const contradictions = [
  {
    engine: "stoker",
    these: [/^--flash-attn=off$/, /^--kv-cache-dtype=q\d/],
    why: "a quantised --kv-cache-dtype requires flash attention on the engine stoker. Remove one of the two arguments.",
  },
  {
    engine: "stoker",
    these: [/^--draft-model=/, /^--speculative=prompt-lookup$/],
    why: "--draft-model and --speculative=prompt-lookup cannot be combined on the engine stoker. Remove one of them.",
  },
  {
    engine: "llamacpp",
    these: [/^--flash-attn=off$/, /^--cache-type-v=(q|iq)\d/],
    why: "a quantised --cache-type-v requires flash attention on the engine llamacpp. Remove one of the two arguments.",
  },
];

function withoutContradiction(args: readonly string[], engine: Engine): readonly string[] {
  const found = contradictions.find(
    (one) => one.engine === engine && one.these.every((form) => args.some((arg) => form.test(arg))),
  );
  if (found) throw extraArgRefused(found.why);
  return args;
}

/** Runs ONNX graphs, whose lengths and types are fixed. */
export const isGraph = ({ engine, format }: ArgsReader): boolean => engine === "stoker" && format === "onnx";

/** Returns the value of `--max-model-len` (`--context-length`), or 0. */
export function contextLengthOf(args: readonly string[]): number {
  const arg = args.find((one) => /^--(max-model-len|context-length)=/.test(one));
  return arg ? Number(arg.slice(arg.indexOf("=") + 1)) : 0;
}
