// npm run test:chaos -- [--seeds N | --seed N | vitest arguments]. With seeds: only test/chaos/seeds, seeds 1 to N, or the one that failed.
import { join } from "node:path";
import { root, runNode } from "./suites/run-tool.ts";

const args = process.argv.slice(2);
const vitest = [join(root, "node_modules/vitest/vitest.mjs"), "run", "--project", "chaos"];
/** One seed takes two minutes on two busy cores. */
const limitMs = 12 * 3_600_000;

const seeds = seedsOf(args);
const code =
  seeds === undefined
    ? await runNode([...vitest, ...args], limitMs)
    : await runNode([...vitest, "test/chaos/seeds/seeds.test.ts"], limitMs, {
        env: { STOKER_CHAOS_SEEDS: seeds.join(",") },
      });
process.exit(code ?? 1);

function seedsOf([option, given, ...rest]: readonly string[]): readonly number[] | undefined {
  if (option !== "--seeds" && option !== "--seed") return undefined;
  const number = Number(given);
  if (!Number.isSafeInteger(number) || number < 1 || rest.length > 0) {
    process.stderr.write(`usage: npm run test:chaos -- ${option} N, a whole number from 1\n`);
    process.exit(2);
  }
  return option === "--seed" ? [number] : Array.from({ length: number }, (_, i) => i + 1);
}
