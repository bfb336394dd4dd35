// Hosts come in and stay by certificates: a real authority, real mutual TLS, the real database.
import { existsSync, mkdirSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pino from "pino";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { enroll, makeKey } from "../../../agent/session/enroll.ts";
import { Identity, type IdentityOptions } from "../../../agent/session/identity.ts";
import { fleetClient, type TlsParts } from "../../../agent/session/wire.ts";
import type { HostId } from "../../../proto/ids.ts";
import { type FakeAgent, type FakeAgentOptions, startFakeAgent } from "../../fakes/agent-session.ts";
import { promisedMs } from "../../fakes/nightly.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { type Replica, scaledLimits, startReplica } from "./replica.ts";

const wait = { timeout: 30_000, interval: 50 };
const act = { by: "u:operator", ip: "10.0.0.1", note: "a test" };
const limit = () => AbortSignal.timeout(20_000);
let postgres: TestDatabases;
let url: string;
let folder: string;
let replicas: Replica[] = [];
let agents: FakeAgent[] = [];

beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres?.stop());
beforeEach(async () => {
  url = await postgres.migratedDatabase();
  folder = mkdtempSync(join(tmpdir(), "stoker-enrolment-"));
});
afterEach(async () => {
  for (const agent of agents) await agent.close();
  for (const replica of replicas) await replica.stop();
  agents = [];
  replicas = [];
  rmSync(folder, { recursive: true, force: true });
});

async function start(options: Parameters<typeof startReplica>[1] = {}): Promise<Replica> {
  const replica = await startReplica(url, options);
  replicas.push(replica);
  return replica;
}
async function comes(replica: Replica, over: Partial<FakeAgentOptions> = {}): Promise<FakeAgent> {
  const agent = await startFakeAgent({ address: replica.address, token: replica.joinToken, hostId: "host-1", ...over });
  agents.push(agent);
  agent.obey("ready");
  agent.connect();
  return agent;
}
const welcomed = (agent: FakeAgent) => vi.waitFor(() => expect(agent.welcome).toBeDefined(), wait);
const tokenOf = async (replica: Replica, over: { ttlMs?: number; forHost?: HostId } = {}) =>
  (await replica.enrolment.createToken({ pool: "a", ttlMs: over.ttlMs ?? 60_000, forHost: over.forHost }, act)).token;
const joins = (replica: Replica, token: string, hostId: string, keyPem = makeKey()) =>
  enroll({ address: replica.address, token, keyPem, hostId }, hostId, limit());
const identity = (replica: Replica, over: Partial<IdentityOptions> = {}) =>
  new Identity({
    folder: join(folder, "identity"),
    hostId: "host-1",
    hostname: "h",
    addresses: [replica.address],
    readToken: async () => replica.joinToken,
    nowMs: Date.now,
    random: Math.random,
    log: pino({ level: "silent" }),
    ...over,
  });
const audited = async (replica: Replica) =>
  (await replica.db.selectFrom("audit").select(["action", "subject"]).orderBy("at").execute()).map(
    (row) => `${row.action} ${row.subject}`,
  );
/** How a session with this certificate ends. */
async function sessionWith(replica: Replica, tls: TlsParts): Promise<string> {
  const client = fleetClient(replica.address, tls);
  try {
    return await new Promise((resolve) => {
      const stream = client.session();
      stream.on("error", (error) => resolve(error.message));
      stream.on("data", () => resolve("welcomed"));
      const hello = { hostId: "host-1", agentVersion: "0.1.0", advertise: "http://127.0.0.1:1", inventory: {} };
      stream.write({ body: "hello", hello });
    });
  } finally {
    client.close();
  }
}

describe("a join token", () => {
  it("creates one host of the installation, and the same one again if the response was lost", async () => {
    const replica = await start();
    const token = await tokenOf(replica);
    const key = makeKey();
    await joins(replica, token, "host-a", key);
    await joins(replica, token, "host-a", key);
    await expect(joins(replica, token, "host-b")).rejects.toThrow("used by another host");
    expect(await audited(replica)).toContain("node.enroll host-a");
    const [row] = await replica.db.selectFrom("nodeJoinToken").selectAll().execute();
    expect(JSON.stringify(row)).not.toContain(token.split(".")[1]);
  });

  it("is refused if expired, with a wrong secret, or malformed", async () => {
    const replica = await start();
    const token = await tokenOf(replica);
    await replica.db
      .updateTable("nodeJoinToken")
      .set({ expiresAt: new Date(0) })
      .execute();
    await expect(joins(replica, token, "host-a")).rejects.toThrow("has expired");
    await expect(joins(replica, token.replace(/\.[^.]+\./, ".wrong."), "host-a")).rejects.toThrow("unknown join token");
    await expect(joins(replica, "one.two", "host-a")).rejects.toThrow("malformed");
    expect(await replica.db.selectFrom("nodeIdentity").selectAll().execute()).toEqual([]);
  });

  it("is sent only to the control plane whose authority it names", async () => {
    const replica = await start();
    const token = await tokenOf(replica);
    const other = token.replace(/[^.]+$/, "A".repeat(43));
    await expect(joins(replica, other, "host-a")).rejects.toThrow("not the one that the join token is of");
    const [row] = await replica.db.selectFrom("nodeJoinToken").select("usedAt").execute();
    expect(row?.usedAt).toBeNull();
  });

  it("does not replace a host that has another key", async () => {
    const replica = await start();
    await joins(replica, await tokenOf(replica), "host-a");
    await expect(joins(replica, await tokenOf(replica), "host-a")).rejects.toThrow("joined with another key");
  });
});

describe("a certificate", () => {
  it("and its key are readable only by the agent, and survive a restart without a token", async () => {
    const replica = await start();
    const first = await identity(replica).tls(replica.address, limit());
    for (const name of ["key.pem", "certificate.json"])
      expect(statSync(join(folder, "identity", name)).mode & 0o777).toBe(0o600);
    const later = await identity(replica, { readToken: async () => undefined }).tls(replica.address, limit());
    expect(later).toEqual(first);
    expect(await sessionWith(replica, later)).toBe("welcomed");
  });

  it("is renewed at two thirds of its life, for the same key", async () => {
    const replica = await start({ certificateLifeMs: 6_000 });
    const one = identity(replica);
    const first = await one.tls(replica.address, limit());
    const ending = new AbortController();
    const running = one.run(ending.signal);
    try {
      await vi.waitFor(async () => {
        const now = await one.tls(replica.address, limit());
        expect(now.own?.certificatePem).not.toBe(first.own?.certificatePem);
        expect(now.own?.keyPem).toBe(first.own?.keyPem);
      }, wait);
      expect(one.certificateSecondsLeft()).toBeGreaterThan(2);
      const [row] = await replica.db.selectFrom("nodeIdentity").selectAll().execute();
      expect((row?.notAfter.getTime() ?? 0) - (row?.enrolledAt.getTime() ?? 0)).toBeGreaterThan(7_000);
    } finally {
      ending.abort();
      await running;
    }
  });

  it("is used even if it cannot be stored, and is stored once possible", async () => {
    const replica = await start();
    const path = join(folder, "identity", "certificate.json");
    // What a full disk does to a file that is to be written.
    mkdirSync(`${path}.new`, { recursive: true });
    const one = identity(replica);
    expect(await sessionWith(replica, await one.tls(replica.address, limit()))).toBe("welcomed");
    rmSync(`${path}.new`, { recursive: true });
    const running = one.run(AbortSignal.timeout(1_000));
    await vi.waitFor(() => expect(existsSync(path)).toBe(true), wait);
    await running;
  });

  it("that has expired opens no session; the host joins again with its old key", async () => {
    const replica = await start({ certificateLifeMs: 1_000 });
    let token: string | undefined = replica.joinToken;
    const one = identity(replica, { readToken: async () => token });
    const expired = await one.tls(replica.address, limit());
    await vi.waitFor(() => expect(one.certificateSecondsLeft()).toBeLessThan(-1), wait);
    expect(await sessionWith(replica, expired)).toContain("the client certificate is missing");
    token = undefined;
    await expect(one.tls(replica.address, limit())).rejects.toThrow("certificate has expired");
    token = await tokenOf(replica);
    // By a control plane whose certificates outlast a slow handshake.
    const patient = await start({ owner: "b" });
    const again = await one.tls(patient.address, limit());
    expect(again.own?.keyPem).toBe(expired.own?.keyPem);
    expect(await sessionWith(patient, again)).toBe("welcomed");
  });

  it("of another installation, or missing, opens no session; the name in the message is ignored", async () => {
    const replica = await start();
    const other = await startReplica(await postgres.migratedDatabase());
    try {
      const own = await identity(replica).tls(replica.address, limit());
      const foreign = await identity(other, { folder: join(folder, "other") }).tls(other.address, limit());
      if (!own.own || !foreign.own) throw new Error("no certificate");
      expect(await sessionWith(replica, { caPem: own.caPem, own: foreign.own })).toMatch(
        /client certificate is missing|UNAVAILABLE/,
      );
      expect(await sessionWith(replica, { caPem: own.caPem, own: undefined })).toContain(
        "client certificate is missing",
      );
      // The host in turn talks to no control plane of another authority.
      expect(await sessionWith(replica, foreign)).toMatch(/certificate|UNAVAILABLE/);
    } finally {
      await other.stop();
    }
    const neighbour = await identity(replica, { folder: join(folder, "b"), hostId: "host-2" }).tls(
      replica.address,
      limit(),
    );
    expect(await sessionWith(replica, neighbour)).toContain("does not match the certificate");
    expect(await replica.db.selectFrom("host").select("hostId").execute()).toEqual([]);
  });
});

describe("a revoked host", () => {
  it("loses its session and its routes at every replica, and returns only with a token created for it", async () => {
    const replica = await start();
    const second = await start({ owner: "b" });
    const agent = await comes(replica);
    const { id } = await replica.deploy();
    await vi.waitFor(() => expect(second.routing.ready(id)).toHaveLength(1), wait);
    const begun = performance.now();
    await second.enrolment.revoke("host-1" as HostId, act);
    await vi.waitFor(() => {
      expect(agent.ended).toBeDefined();
      for (const one of [replica, second]) expect(one.routing.ready(id)).toEqual([]);
    }, wait);
    expect(performance.now() - begun).toBeLessThan(promisedMs(2_000));
    agent.connect();
    await vi.waitFor(() => expect(agent.ended).toContain("was revoked"), wait);
    await expect(joins(replica, replica.joinToken, "host-1")).rejects.toThrow("was revoked");
    await expect(second.enrolment.revoke("host-1" as HostId, act)).rejects.toThrow("already revoked");
    await joins(replica, await tokenOf(replica, { forHost: "host-1" as HostId }), "host-1");
    const [row] = await replica.db.selectFrom("nodeIdentity").selectAll().execute();
    expect(row?.revokedAt).toBeNull();
    expect(await audited(replica)).toContain("node.revoke host-1");
  });

  it("returns with a token that its operator puts beside its state, while its agent runs", async () => {
    const replica = await start();
    let own: string | undefined;
    const one = identity(replica, { readOwnToken: async () => own });
    const agent = await comes(replica);
    await welcomed(agent);
    await agent.close();
    agents = [];
    own = await tokenOf(replica, { forHost: "host-1" as HostId });
    expect(await sessionWith(replica, await one.tls(replica.address, limit()))).toBe("welcomed");
    await replica.enrolment.revoke("host-1", act);
    expect(await sessionWith(replica, await one.tls(replica.address, limit()))).toContain("was revoked");
    own = "of.another.installation";
    expect(await sessionWith(replica, await one.tls(replica.address, limit()))).toContain("was revoked");
    own = await tokenOf(replica, { forHost: "host-1" as HostId });
    expect(await sessionWith(replica, await one.tls(replica.address, limit()))).toBe("welcomed");
  });

  it("is replaced immediately, without a silence period; its reports are ignored", async () => {
    const replica = await start();
    const agent = await comes(replica);
    const { id } = await replica.deploy();
    await vi.waitFor(() => expect(replica.routing.ready(id)).toHaveLength(1), wait);
    await welcomed(await comes(replica, { hostId: "host-2" }));
    await replica.enrolment.revoke("host-1" as HostId, act);
    // Lost after 60 s here, had it only fallen silent.
    await vi.waitFor(() => expect(replica.routing.ready(id)[0]?.hostId).toBe("host-2"), { ...wait, timeout: 20_000 });
    expect((await replica.snapshot()).find((host) => host.id === "host-1")?.state).toBe("lost");
    await vi.waitFor(() => expect(agent.ended).toBeDefined(), wait);
    expect(replica.alerts).not.toContain("second_session");
    expect(replica.alerts).not.toContain("cloned_identity");
  });

  it("is not counted among running instances", async () => {
    const replica = await start();
    await comes(replica);
    const { id } = await replica.deploy();
    await vi.waitFor(async () => expect((await replica.get(id))?.running).toBe(1), wait);
    await replica.enrolment.revoke("host-1" as HostId, act);
    expect((await replica.get(id))?.running).toBe(0);
  });

  it("need not have opened a session; the address it joined from is audited", async () => {
    const replica = await start();
    const key = makeKey();
    await joins(replica, await tokenOf(replica), "host-a", key);
    await replica.enrolment.revoke("host-a" as HostId, act);
    await expect(joins(replica, replica.joinToken, "host-a", key)).rejects.toThrow("was revoked");
    const [entry] = await replica.db.selectFrom("audit").select("ip").where("action", "=", "node.enroll").execute();
    expect(entry?.ip).toMatch(/^(::ffff:)?127\.0\.0\.1$|^::1$/);
    await expect(replica.enrolment.revoke("host-b" as HostId, act)).rejects.toMatchObject({ code: "node_not_found" });
  });

  it("does not return with an earlier token, used or not", async () => {
    const replica = await start();
    const host = "host-1" as HostId;
    const key = makeKey();
    await welcomed(await comes(replica));
    const used = await tokenOf(replica, { forHost: host });
    const unused = await tokenOf(replica, { forHost: host });
    await joins(replica, used, host, key);
    await replica.enrolment.revoke(host, act);
    for (const token of [used, unused]) await expect(joins(replica, token, host, key)).rejects.toThrow("has expired");
    await replica.db
      .updateTable("nodeJoinToken")
      .set({ expiresAt: new Date(Date.now() + 60_000) })
      .execute();
    await expect(joins(replica, used, host, key)).rejects.toThrow("was revoked");
    const fresh = await tokenOf(replica, { forHost: host });
    await joins(replica, fresh, host, key);
    await joins(replica, fresh, host, key);
  });
});

it("has the pool of its join token", async () => {
  const replica = await start();
  await welcomed(await comes(replica, { token: await tokenOf(replica) }));
  await welcomed(await comes(replica, { hostId: "host-2" }));
  const pools = (await replica.fleetStore.hosts()).map(({ id, pool }) => [id, pool]);
  expect(pools).toEqual([
    ["host-1", "a"],
    ["host-2", ""],
  ]);
});

describe("a cloned identity", () => {
  it("is fenced when it returns beside its successor: the newer one stays, the operator is alerted", async () => {
    const replica = await start();
    const original = await comes(replica);
    await welcomed(original);
    const clone = await comes(replica);
    await welcomed(clone);
    await vi.waitFor(() => expect(original.ended).toBeDefined(), wait);
    original.connect();
    await vi.waitFor(() => expect(original.ended).toContain("another agent registered later with the identity"), wait);
    expect(original.welcome).toBeUndefined();
    expect(clone.ended).toBeUndefined();
    expect(replica.alerts).toContain("cloned_identity");
    expect(await audited(replica)).toContain("node.clone host-1");
    const [shown] = await replica.fleetStore.hosts();
    expect(shown?.condition).toMatch(/^cloned_identity: /);
  });

  it("is not assumed when an agent restarts", async () => {
    const replica = await start();
    const agent = await comes(replica);
    for (let n = 0; n < 3; n++) {
      await welcomed(agent);
      agent.disconnect();
      agent.restart();
      agent.connect();
    }
    await welcomed(agent);
    expect((await replica.fleetStore.hosts())[0]?.condition).not.toContain("cloned_identity");
  });

  it("that is alone again is accepted again", async () => {
    const replica = await start({ limits: scaledLimits });
    const original = await comes(replica);
    await welcomed(original);
    const clone = await comes(replica);
    await welcomed(clone);
    await clone.close();
    agents = agents.filter((one) => one !== clone);
    await vi.waitFor(async () => {
      original.connect();
      await vi.waitFor(() => expect(original.welcome ?? original.ended).toBeDefined(), wait);
      expect(original.welcome, original.ended).toBeDefined();
    }, wait);
  });
});

describe("a control plane older than the epochs of its hosts", () => {
  it("stays outdated however often they reconnect, until an operator adopts them", async () => {
    const replica = await start();
    const agent = await comes(replica, { highestEpoch: 500n });
    for (let n = 0; n < 3; n++) {
      await welcomed(agent);
      expect(agent.welcome?.behind).toBe(true);
      agent.disconnect();
      agent.connect();
    }
    await welcomed(agent);
    const [before] = await replica.fleetStore.hosts();
    expect(before?.condition).toMatch(/^control_plane_behind: /);
    expect(before?.nodeEpoch).toBe(0n);
    expect(agent.desiredCount).toBe(0);

    await replica.enrolment.adopt("host-1" as HostId, act);
    await vi.waitFor(() => expect(agent.ended).toBeDefined(), wait);
    agent.connect();
    await vi.waitFor(() => expect(agent.desiredCount).toBeGreaterThan(0), wait);
    expect(agent.welcome?.behind).toBe(false);
    expect(BigInt(agent.welcome?.nodeEpoch ?? 0)).toBeGreaterThan(500n);
    expect(await audited(replica)).toContain("node.adopt host-1");
    await expect(replica.enrolment.adopt("host-1" as HostId, act)).rejects.toThrow("nothing to adopt");
  });
});
