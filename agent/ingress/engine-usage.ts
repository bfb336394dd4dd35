// Usage of a request that was cut: our own runtime reports it under `GET /usage/{id}`, other engines reply 404.
import { setTimeout as wait } from "node:timers/promises";
import type { Pool } from "undici";
import { readUnits } from "../../proto/usage.ts";
import { count, type EngineFigures } from "./find-usage.ts";

const boundMs = 1_000;
const pollMs = 40;

/** The final figures, or undefined when the engine does not know or has not stopped within a second. Never rejects. */
export async function askEngineUsage(
  pool: Pool,
  id: string,
  headers: Record<string, string>,
): Promise<EngineFigures | undefined> {
  const signal = AbortSignal.timeout(boundMs);
  try {
    for (;;) {
      const answer = await pool.request({ method: "GET", path: `/usage/${id}`, headers, signal });
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
  const input = count(usage["input_tokens"]);
  const output = count(usage["output_tokens"]);
  if (Number.isNaN(input) || Number.isNaN(output)) return undefined;
  const cachedInput = Math.min(input, count(usage["cached_input_tokens"]) || 0);
  return { input, cachedInput, output, reasoning: 0, units: readUnits(usage) };
}
