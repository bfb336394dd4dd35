// Recorded agents of earlier releases, in a session with the control plane of this tree.
import { readdirSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import pino from "pino";
import { Registry } from "prom-client";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { enroll, makeKey } from "../../../agent/session/enroll.ts";
import { fleetClient, fleetService } from "../../../agent/session/wire.ts";
import { createBillingMetrics } from "../../../control-plane/billing/metrics.ts";
import { createQuarantine } from "../../../control-plane/billing/quarantine.ts";
import { monthScopes } from "../../../control-plane/billing/scopes.ts";
import { createSettlement } from "../../../control-plane/billing/settle.ts";
import { createQuarantineStore } from "../../../control-plane/store/money/quarantine-store.ts";
import { createSettlementStore } from "../../../control-plane/store/money/settlement-store.ts";
import type { AgentMessage__Output } from "../../../proto/gen/stoker/fleet/v1/AgentMessage.ts";
import type { ControlMessage__Output } from "../../../proto/gen/stoker/fleet/v1/ControlMessage.ts";
import { verifyTicket } from "../../../proto/ticket.ts";
import { readUsageBatch } from "../../../proto/usage-record.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { testSeals } from "../../fakes/seals.ts";
import { type Replica, startReplica } from "./replica.ts";

const wait = { timeout: 30_000, interval: 50 };
const folder = join(import.meta.dirname, "../../fixtures/agent-sessions");
const recordings = readdirSync(folder).filter((name) => name.endsWith(".jsonl"));

interface Said {
  readonly message: AgentMessage__Output;
  readonly bytes: Buffer;
}
const read = (name: string): Said[] =>
  readFileSync(join(folder, name), "utf8")
    .trim()
    .split("\n")
    .map((line) => Buffer.from((JSON.parse(line) as { bytes: string }).bytes, "base64"))
    .map((bytes) => ({ bytes, message: session.requestDeserialize(bytes) as AgentMessage__Output }));

const { Session: session } = fleetService;

let postgres: TestDatabases;
let replica: Replica;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres?.stop());
beforeEach(async () => {
  replica = await startReplica(await postgres.migratedDatabase(), {
    settle: (db) => {
      const metrics = createBillingMetrics(new Registry());
      const log = pino({ level: "silent" });
      const quarantine = createQuarantine({ store: createQuarantineStore(db), metrics, log });
      const store = createSettlementStore(db, monthScopes);
      return createSettlement({ store, seals: testSeals, quarantine, log, metrics, gatherMs: 0 }).settle;
    },
  });
});
afterEach(async () => {
  for (const stop of stopping.splice(0)) stop();
  await replica?.stop();
});
const stopping: (() => void)[] = [];

/** One stream under the host's own certificate, onto which anything may be written. */
async function talk(hostId: string) {
  const keyPem = makeKey();
  const request = { address: replica.address, token: replica.joinToken, keyPem, hostId };
  const { certificatePem, caPem } = await enroll(request, hostId, AbortSignal.timeout(20_000));
  const client = fleetClient(replica.address, { caPem, own: { certificatePem, keyPem } });
  const heard: ControlMessage__Output[] = [];
  let ended: string | undefined;
  const stream = client.makeBidiStreamRequest<Buffer, ControlMessage__Output>(
    session.path,
    (bytes) => bytes,
    session.responseDeserialize as (bytes: Buffer) => ControlMessage__Output,
  );
  stream.on("data", (message: ControlMessage__Output) => heard.push(message));
  stream.on("error", (error: Error) => (ended = error.message));
  stopping.push(() => {
    stream.cancel();
    client.close();
  });
  const find = <K extends keyof ControlMessage__Output>(kind: K) =>
    heard.flatMap((message) => message[kind] ?? []) as NonNullable<ControlMessage__Output[K]>[];
  return { send: (bytes: Buffer) => void stream.write(bytes), find, ended: () => ended };
}

/** Proves itself to who has the session's key. Its port has as many digits as the recorded one. */
async function dataPath(hostId: string, recorded: string, keys: readonly Buffer[]): Promise<string> {
  for (let tries = 0; tries < 50; tries++) {
    const server = createServer((request, response) => {
      const ticket = verifyTicket(String(request.headers["x-stoker-ticket"] ?? ""), [...keys], Date.now());
      response.writeHead(typeof ticket === "string" ? 401 : 200).end(JSON.stringify({ host_id: hostId }));
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    if (origin.length === recorded.length) {
      stopping.push(() => server.close().closeAllConnections());
      return origin;
    }
    server.close();
  }
  throw new Error("no port of five digits was free");
}

/** Names as long as those they replace leave a message as it was. */
function renamed(bytes: Buffer, names: ReadonlyMap<string, string>): Buffer {
  let text = bytes.toString("latin1");
  for (const [from, to] of names) {
    expect(to).toHaveLength(from.length);
    text = text.replaceAll(from, to);
  }
  return Buffer.from(text, "latin1");
}

describe.each(recordings)("the recorded session %s", (name) => {
  it("registers its host, makes its instance routable, and gets its usage without tickets quarantined and acknowledged", async () => {
    const [introduction, ...rest] = read(name) as [Said, ...Said[]];
    const { hello } = introduction.message;
    if (!hello) throw new Error("a recording begins with Hello");
    const running = rest.flatMap(({ message }) => message.report?.instances ?? [])[0];
    if (!running) throw new Error("a recording has an instance");
    const keys: Buffer[] = [];
    const names = new Map([[hello.advertise, await dataPath(hello.hostId, hello.advertise, keys)]]);
    const agent = await talk(hello.hostId);
    agent.send(renamed(introduction.bytes, names));
    await vi.waitFor(() => expect(agent.find("welcome"), agent.ended()).toHaveLength(1), wait);
    keys.push(agent.find("welcome")[0]?.ticketKey as Buffer);

    const { id } = await replica.deploy();
    await vi.waitFor(() => expect(agent.find("desired").at(-1)?.instances).toHaveLength(1), wait);
    const wanted = agent.find("desired").at(-1)?.instances[0];
    names.set(running.instanceId, wanted?.instanceId ?? "").set(running.deployId, wanted?.deployId ?? "");
    for (const { bytes } of rest) agent.send(renamed(bytes, names));

    await vi.waitFor(async () => expect((await replica.get(id))?.status, agent.ended()).toBe("deployed"), wait);
    await vi.waitFor(() => expect(replica.routing.ready(id)).toHaveLength(1), wait);
    const sent = rest.flatMap(({ message }) => (message.usage ? readUsageBatch(message.usage.records) : []));
    const ids = new Set(sent.map(({ spoolId }) => String(spoolId)));
    expect(ids.size).toBeGreaterThan(0);
    await vi.waitFor(() => expect(new Set(agent.find("usageAck").flatMap((ack) => ack.spoolIds))).toEqual(ids), wait);
    // Its records name account and rates themselves and prove nothing: they bill nobody, and an operator can see them.
    const kept = await replica.db.selectFrom("usageQuarantine").select(["hostId", "problem"]).execute();
    expect(kept).toEqual([...ids].map(() => ({ hostId: hello.hostId, problem: "unsealed" })));
    expect(await replica.db.selectFrom("usage").selectAll().execute()).toEqual([]);
    const renewals = rest.flatMap(({ message }) => message.renew?.sequence ?? []);
    await vi.waitFor(() => expect(agent.find("renewed").map(({ sequence }) => sequence)).toEqual(renewals), wait);
    const host = await replica.db.selectFrom("host").selectAll().executeTakeFirstOrThrow();
    expect(host).toMatchObject({ hostId: hello.hostId, hostname: hello.hostname, agentVersion: hello.agentVersion });
    expect(agent.ended()).toBeUndefined();
  });
});

it("an agent below the minimum version is refused, and its log says what to do", async () => {
  const [introduction] = read(recordings[0] as string) as [Said];
  const { hello } = introduction.message;
  const agent = await talk(hello?.hostId ?? "");
  agent.send(renamed(introduction.bytes, new Map([[hello?.agentVersion ?? "", "0.0.9"]])));
  await vi.waitFor(
    () => expect(agent.ended()).toContain("agent version 0.0.9 is too old: the control plane requires at least 0.1.0"),
    wait,
  );
  expect(agent.ended()).toContain("Install a newer agent on this host and restart it");
  expect(await replica.db.selectFrom("host").selectAll().execute()).toEqual([]);
});
