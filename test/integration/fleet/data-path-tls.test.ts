// A control plane, its real certificates and hosts' data paths: proofs, reported failures, and revocations.
import { afterAll, afterEach, beforeAll, beforeEach, expect, it, vi } from "vitest";
import type { HostId } from "../../../proto/ids.ts";
import type { OwnCertificate } from "../../../proto/peer-tls.ts";
import { type FakeAgent, type FakeAgentOptions, identityOf, startFakeAgent } from "../../fakes/agent-session.ts";
import { type DataPath, startDataPath } from "../../fakes/data-path.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { changingTls } from "../../fakes/secure-data-path.ts";
import { type Replica, startReplica } from "./replica.ts";

const wait = { timeout: 30_000, interval: 50 };
const act = { by: "u:operator", ip: "10.0.0.1", note: "a test" };
let postgres: TestDatabases;
let replica: Replica;
let url: string;
let ends: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres?.stop());
beforeEach(async () => {
  url = await postgres.migratedDatabase();
  replica = await startReplica(url, { mayBePlain: (hostname) => hostname === "10.255.255.2" });
});
afterEach(async () => {
  for (const end of ends.reverse()) await end();
  ends = [];
  await replica.stop();
});

async function comes(hostId: string, over: Partial<FakeAgentOptions> = {}): Promise<FakeAgent> {
  const agent = await startFakeAgent({ address: replica.address, token: replica.joinToken, hostId, ...over });
  ends.push(() => agent.close());
  agent.obey("ready");
  agent.connect();
  return agent;
}

/** With the certificate that this host was given. */
async function certificateOf(hostId: string): Promise<OwnCertificate> {
  const { caPem, own } = await identityOf({ address: replica.address, token: replica.joinToken, hostId });
  if (!own) throw new Error("the host has no certificate");
  return { ...own, caPem };
}

/** A real data path that shows this certificate and says that it is `host-1`'s. */
async function dataPath(own: OwnCertificate, agent: () => FakeAgent | undefined): Promise<DataPath> {
  const path = await startDataPath("http://127.0.0.1:1", {
    hostId: "host-1" as HostId,
    tls: changingTls(own),
    keys: () => {
      const key = agent()?.welcome?.ticketKey;
      return key ? [key as Buffer] : [];
    },
  });
  ends.push(() => path.close());
  return path;
}

const host = async (id: string) => (await replica.fleetStore.hosts()).find((one) => one.id === id);

it("a host is proven by its own certificate", async () => {
  let agent: FakeAgent | undefined;
  const path = await dataPath(await certificateOf("host-1"), () => agent);
  agent = await comes("host-1", { advertise: `https://127.0.0.1:${path.port}` });
  await vi.waitFor(async () => expect(await host("host-1")).toMatchObject({ schedulable: true, condition: "" }), wait);
});

it("a host whose address belongs to another one is shown with this reason, and gets no work", async () => {
  let agent: FakeAgent | undefined;
  const path = await dataPath(await certificateOf("host-2"), () => agent);
  agent = await comes("host-1", { advertise: `https://127.0.0.1:${path.port}` });
  await vi.waitFor(async () => {
    const shown = await host("host-1");
    expect(shown?.condition).toMatch(
      /^data_path_unreachable: https:\S+ shows a certificate that is that of host host-2: /,
    );
    expect(shown?.schedulable).toBe(false);
  }, wait);
});

it("a host that announces plain HTTP gets no work, unless it is on this machine or the operator names it", async () => {
  await comes("host-1");
  await comes("host-2", { advertise: "http://10.255.255.1:9100" });
  await comes("host-3", { advertise: "http://10.255.255.2:9100" });
  await vi.waitFor(async () => {
    expect((await host("host-1"))?.schedulable).toBe(true);
    expect((await host("host-2"))?.condition).toContain(
      "does not use TLS, which is required for hosts on other machines",
    );
    expect((await host("host-2"))?.schedulable).toBe(false);
    // Nothing listens there: it was dialled.
    expect((await host("host-3"))?.condition).toMatch(/^data_path_unreachable: http:/);
    expect((await host("host-3"))?.condition).not.toContain("TLS");
  }, wait);
});

it("every host learns about revoked hosts, and never contacts them", async () => {
  const one = await comes("host-1");
  await comes("host-2");
  await vi.waitFor(async () => expect((await host("host-2"))?.schedulable).toBe(true), wait);
  await replica.enrolment.revoke("host-2" as HostId, act);
  await vi.waitFor(() => expect(one.barred).toEqual(["host-2"]), wait);
  const to = { hostId: "host-2" as HostId, origin: "https://127.0.0.1:1" };
  expect(() => replica.dial(to)).toThrow("is revoked: host host-2");
  const late = await comes("host-3");
  await vi.waitFor(() => expect(late.welcome?.barredHosts).toEqual(["host-2"]), wait);
});

it("a starting control plane knows the revoked hosts before the first host connects", async () => {
  const agent = await comes("host-2");
  await vi.waitFor(async () => expect((await host("host-2"))?.schedulable).toBe(true), wait);
  await replica.enrolment.revoke("host-2" as HostId, act);
  await agent.close();
  await replica.stop();
  // It looks again long after this test.
  replica = await startReplica(url, { resyncMs: 600_000 });
  expect(() => replica.dial({ hostId: "host-2" as HostId, origin: "http://127.0.0.1:1" })).toThrow("is revoked");
  const other = await comes("host-1");
  await vi.waitFor(() => expect(other.welcome?.barredHosts).toEqual(["host-2"]), wait);
});
