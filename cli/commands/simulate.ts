import type { Command } from "../command.ts";
import { runChild } from "../on-host.ts";
import { programFile } from "../own-files.ts";

/** Passes its options to simulator/main.ts, which checks them. */
export function addSimulate(program: Command): void {
  const command = program
    .command("simulate")
    .description("run router, gate and autoscaler in virtual time: on built-in scenarios, or on a trace")
    .example("stoker simulate --scenario burst")
    .option("--scenario <text>", "only built-in scenarios whose name contains the text")
    .option("--report <file>", "write the comparison of all scenarios as Markdown, with plots in a folder beside it")
    .option("--calibration <file>", "add measurements of `npm run bench -- calibrate --json` to the report")
    .option(
      "--trace <file>",
      "replay JSON lines: timestamp, input_length, output_length; account, conversation, hash_ids",
    )
    .option("--instances <n>", "instances of the fleet for a trace (8)")
    .option("--profile <name|file>", "engine for a trace: 8b, 8b-fast, 8b-small-cache, 70b, or a JSON file (8b)")
    .option("--gateways <n>", "control planes that receive the requests of a trace (1)")
    .option("--scale <min:max>", "scale the fleet for a trace between these")
    .option("--speed <x>", "play the trace x times as fast (1)")
    .option("--policy <names...>", "stoker, least-loaded, prefix-hash, known-caches (the first three)")
    .option("--price <in:cached:out>", "USD per million tokens (0.2:0.05:0.6)")
    .option("--gpu-price <usd>", "USD per GPU and hour (1.2)")
    .option("--seed <n>", "random seed (1)")
    .option("--json", "write outcomes as JSON lines");
  command.action(() => {
    // The parser gives options that `stoker` has too, --json and --profile, to `stoker`.
    const chosen = command.optsWithGlobals() as Readonly<Record<string, string | readonly string[] | true>>;
    const args = command.options.flatMap((option) => {
      const value = chosen[option.attributeName()];
      if (value === undefined) return [];
      if (value === true) return [option.long as string];
      return [value].flat().map((one) => `${option.long}=${one}`);
    });
    // Requests of 1,000 instances live longer than a small young generation lasts: moving them took a tenth of a run.
    return runChild(process.execPath, ["--max-semi-space-size=64", programFile("simulator/main.ts"), ...args]);
  });
}
