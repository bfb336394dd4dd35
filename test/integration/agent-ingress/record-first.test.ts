import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pino from "pino";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openState } from "../../../agent/state/open-state.ts";
import { openCall } from "../../fakes/data-path.ts";
import { type FakeEngine, startFakeEngine } from "../../fakes/engine.ts";
import { pendingRecords } from "../../fakes/usage-record.ts";

let folder: string;
let engine: FakeEngine;
const agents: ChildProcess[] = [];

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "stoker-agent-"));
  engine = await startFakeEngine({ tokens: 5 });
});
afterEach(async () => {
  // They write into the folder as long as they live.
  for (const agent of agents.splice(0)) {
    agent.kill("SIGKILL");
    if (agent.exitCode === null && agent.signalCode === null) await once(agent, "exit");
  }
  await engine.close();
  rmSync(folder, { recursive: true, force: true });
});

async function startAgent(fault = ""): Promise<{ agent: ChildProcess; port: number }> {
  const script = join(import.meta.dirname, "record-first-agent.ts");
  const agent = spawn(process.execPath, [script, folder, engine.origin, fault], { stdio: ["pipe", "pipe", "inherit"] });
  agents.push(agent);
  const [line] = (await once(agent.stdout as NonNullable<typeof agent.stdout>, "data")) as [Buffer];
  return { agent, port: Number(line.toString()) };
}

async function recordsLeft() {
  const state = await openState(join(folder, "state.db"), pino({ level: "silent" }));
  const records = await pendingRecords(state.spool, 100);
  await state.close();
  return records;
}

describe.each([true, false])("an agent killed between record and last bytes (stream: %s)", (stream) => {
  it("has the record on disk although the gateway never got the end, and lives after its restart", async () => {
    const marker = join(folder, "fault");
    writeFileSync(marker, "");
    const { agent, port } = await startAgent(`after_record@${marker}`);
    const { reply, ticket } = openCall(port, { ticket: { stream } });
    const got = await reply.catch(() => undefined);
    if (agent.exitCode === null && agent.signalCode === null) await once(agent, "exit");
    expect(agent.signalCode).toBe("SIGKILL");
    expect(got?.text ?? "").not.toContain("[DONE]");
    expect(got?.usage).toBeUndefined();
    expect(existsSync(marker)).toBe(false);
    const again = await startAgent(`after_record@${marker}`);
    expect((await openCall(again.port).reply).usage?.endReason).toBe("stop");
    again.agent.kill("SIGKILL");
    await once(again.agent, "exit");
    const records = await recordsLeft();
    expect(records).toHaveLength(2);
    expect(records[0]).toMatchObject({
      requestId: ticket.requestId,
      outputTokens: 5,
      endReason: "stop",
      source: "engine",
    });
  });
});

it("turns requests that were cut by a kill into records of reason `lost`, each once, over two restarts", async () => {
  engine.behave({ tokens: 10_000, tokenMs: 20 });
  const { agent, port } = await startAgent();
  const calls = Array.from({ length: 5 }, () => openCall(port, { ticket: { maxTokens: 10_000 } }));
  for (const { reply } of calls) reply.catch(() => {});
  await expect.poll(() => engine.log.filter((e) => e.sentTokens > 5).length, { timeout: 10_000 }).toBe(5);
  agent.kill("SIGKILL");
  await once(agent, "exit");
  for (let life = 0; life < 2; life++) {
    const records = await recordsLeft();
    expect(records.map((r) => r.requestId).sort()).toEqual(calls.map((c) => c.ticket.requestId).sort());
    // The estimate of the prompt stays on record: it is billed if the gateway delivered output.
    const lost = { endReason: "lost", source: "estimated", inputTokens: 10, outputTokens: 0 };
    expect(records).toEqual(records.map(() => expect.objectContaining(lost)));
  }
});
