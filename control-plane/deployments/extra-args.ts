import { whyArgsRefused, whyStoredArgsRefused } from "../../proto/engine-args.ts";
import type { Engine, WeightsSource } from "./deployment.ts";
import { ExtraArgRefused } from "./errors.ts";

/** What reads them. */
export interface ArgsReader {
  readonly engine: Engine;
  readonly format?: WeightsSource["format"] | undefined;
}

/** What a caller asks for, as it was given. Throws ExtraArgRefused naming the first that would have no effect, and why. */
export function checkExtraArgs(args: readonly string[], { engine, format }: ArgsReader): readonly string[] {
  const why = whyArgsRefused(isGraph({ engine, format }) ? "stoker-onnx" : engine, args);
  if (why !== undefined) throw new ExtraArgRefused(why);
  return withoutContradiction(args, engine);
}

/** What stays as it was, beside what was asked for: older rows hold what is refused by now. */
export function checkKeptArgs(args: readonly string[], { engine }: ArgsReader): readonly string[] {
  const why = whyStoredArgsRefused(engine, args);
  if (why !== undefined) throw new ExtraArgRefused(why);
  return withoutContradiction(args, engine);
}

/** Pairs with which our runtime does not start (runtime/engine-options.ts, runtime/config.ts). */
const contradictions = [
  {
    these: [/^--flash-attn=off$/, /^--kv-cache-dtype=q\d/],
    why: "a quantised --kv-cache-dtype needs flash attention on the engine stoker. Leave out --flash-attn=off, or the other.",
  },
  {
    these: [/^--draft-model=/, /^--speculative=prompt-lookup$/],
    why: "guesses come from --draft-model or from --speculative=prompt-lookup on the engine stoker, not from both. Leave one out.",
  },
];

function withoutContradiction(args: readonly string[], engine: Engine): readonly string[] {
  const found = contradictions.find(({ these }) => these.every((form) => args.some((arg) => form.test(arg))));
  if (engine === "stoker" && found) throw new ExtraArgRefused(found.why);
  return args;
}

/** Served from ONNX graphs, whose lengths and types are fixed. */
export const isGraph = ({ engine, format }: ArgsReader): boolean => engine === "stoker" && format === "onnx";

/** The value of `--max-model-len` (`--context-length`), or 0. */
export function contextLengthOf(args: readonly string[]): number {
  const arg = args.find((one) => /^--(max-model-len|context-length)=/.test(one));
  return arg ? Number(arg.slice(arg.indexOf("=") + 1)) : 0;
}
