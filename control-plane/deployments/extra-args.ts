import { whyArgsRefused } from "../../proto/engine-args.ts";
import { ExtraArgRefused } from "./errors.ts";

/** What passes, as it was given. Throws ExtraArgRefused naming the first that does not, and why. */
export function checkExtraArgs(args: readonly string[], engine = "stoker"): readonly string[] {
  const why = whyArgsRefused(engine, args);
  if (why !== undefined) throw new ExtraArgRefused(why);
  return args;
}

/** The value of `--max-model-len` (`--context-length`), or 0. */
export function contextLengthOf(args: readonly string[]): number {
  const arg = args.find((one) => /^--(max-model-len|context-length)=/.test(one));
  return arg ? Number(arg.slice(arg.indexOf("=") + 1)) : 0;
}
