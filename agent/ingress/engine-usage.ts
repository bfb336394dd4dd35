// What an engine generated for a request that was cut: our own runtime says so under `GET /usage/{id}`, others answer 404.
import { setTimeout as wait } from "node:timers/promises";
import type { Pool } from "undici";
import { readUnits } from "../../proto/usage.ts";
import type { EngineFigures } from "./find-usage.ts";

const boundMs = 1_000;
const pollMs = 40;

/** The final figures, or undefined when the engine does not know or has not stopped within a second. Never rejects. */
export async function askEngineUsage(pool: Pool, id: string): Promise<EngineFigures | undefined> {
  const signal = AbortSignal.timeout(boundMs);
  try {
    for (;;) {
      const answer = await pool.request({ method: "GET", path: `/usage/${id}`, signal });
      if (answer.statusCode !== 200) {
        await answer.body.dump();
        return undefined;
      }
      const usage = (await answer.body.json()) as Record<string, unknown>;
      if (usage["finished"] === true) return figuresOf(usage);
      await wait(pollMs, undefined, { signal });
    }
  } catch {
    return undefined;
  }
}

function figuresOf(usage: Record<string, unknown>): EngineFigures | undefined {
  const count = (name: string) => {
    const value = usage[name] ?? 0;
    return Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : Number.NaN;
  };
  const input = count("input_tokens");
  const output = count("output_tokens");
  if (Number.isNaN(input) || Number.isNaN(output)) return undefined;
  const cachedInput = Math.min(input, count("cached_input_tokens") || 0);
  return { input, cachedInput, output, reasoning: 0, units: readUnits(usage) };
}
