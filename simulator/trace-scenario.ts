// A trace file as a scenario.
import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";
import type { EngineProfile } from "./profile.ts";
import type { Scenario } from "./simulate.ts";
import { readTraceLine, replay, TraceError, type TraceRequest } from "./trace.ts";

/** Limit of the time for the last requests of a trace to end. */
const drainMs = 86_400_000;

/** Reads the file. Throws TraceError for a wrong line. */
export async function traceScenario({
  file,
  profile,
  count,
  gateways,
  speed,
  scale,
}: {
  file: string;
  profile: EngineProfile;
  count: number;
  gateways: number;
  speed: number;
  scale: { min: number; max: number } | undefined;
}): Promise<Scenario> {
  const requests: TraceRequest[] = [];
  const conversations = new Map<string, number>();
  const conversationId = (name: string): number => {
    let id = conversations.get(name);
    if (id === undefined) {
      // Apart from the numbers of blocks.
      id = -1 - conversations.size;
      conversations.set(name, id);
    }
    return id;
  };
  let number = 0;
  for await (const line of createInterface({ input: createReadStream(file), crlfDelay: Number.POSITIVE_INFINITY })) {
    number += 1;
    if (line.trim() === "") continue;
    const request = readTraceLine(line, number, conversationId);
    requests.push({ ...request, atMs: request.atMs / speed });
  }
  if (requests.length === 0) throw new TraceError("The trace has no requests.");
  const endMs = requests.reduce((last, { atMs }) => Math.max(last, atMs), 0) + drainMs;
  return {
    name: file,
    kind: "mixed",
    instances: Array(count).fill(profile),
    gateways,
    ...(scale ? { scale } : {}),
    seconds: endMs / 1000,
    start: (world) => replay(world, requests),
  };
}
