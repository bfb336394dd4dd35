// What a test sees of an agent that runs on an engine: its log, its metrics page, its data path.
import { expect, vi } from "vitest";
import type { InstanceSpec } from "../../proto/gen/stoker/fleet/v1/InstanceSpec.ts";
import type { LocalAgent } from "../fakes/local-agent.ts";

export const patient = { timeout: 60_000, interval: 150 };
export const ids = (specs: readonly InstanceSpec[]) => specs.map((spec) => spec.instanceId as string);
export const lines = (text: string) => text.split("\n").filter((line) => line !== "");

interface Told {
  readonly msg?: string;
  readonly instance?: string;
  readonly code?: string;
  readonly why?: string;
}
export const told = (agent: LocalAgent, instance: unknown, msg: string): Told | undefined =>
  agent
    .log()
    .split("\n")
    .flatMap((line) => (line.startsWith("{") && line.endsWith("}") ? [JSON.parse(line) as Told] : []))
    .findLast((line) => line.instance === instance && line.msg === msg);

export async function phase(agent: LocalAgent, id: string): Promise<string | undefined> {
  return new RegExp(`instance_id="${id}",state="(\\w+)"`).exec(await metricsPage(agent))?.[1];
}
export async function metricsPage(agent: LocalAgent): Promise<string> {
  const page = await fetch(`http://127.0.0.1:${agent.ports().metrics_port}/metrics`, {
    signal: AbortSignal.timeout(5_000),
  });
  return page.text();
}
export const untilServed = (agent: LocalAgent, id: string) =>
  // After a fault, and on a busy machine.
  vi.waitFor(async () => expect((await agent.complete(id))?.status).toBe(200), { ...patient, timeout: 150_000 });
