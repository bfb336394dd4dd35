// What a control plane asks an agent beside inference goes by the same TLS: logs of instances, and tunnels to dashboards.
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { Dial } from "../../../control-plane/fleet/dial.ts";
import { instanceLogs } from "../../../control-plane/fleet/instance-logs.ts";
import { createWays } from "../../../control-plane/http/dashboards/ways.ts";
import type { HostId } from "../../../proto/ids.ts";
import { type DataPath, instanceId, startDataPath, ticketKey } from "../../fakes/data-path.ts";
import { gatewayCertificate, hostCertificate, newAuthority } from "../../fakes/peers.ts";
import { changingTls, dialWith } from "../../fakes/secure-data-path.ts";

const hostId = "host000000000001" as HostId;
const authority = newAuthority();
const gateway = dialWith(gatewayCertificate(authority));
const another = dialWith(hostCertificate(authority, "host-2"));
const limit = () => AbortSignal.timeout(20_000);

let dashboard: Server;
let path: DataPath;
let origin: string;

beforeEach(async () => {
  dashboard = createServer((_, response) => response.end("a dashboard"));
  await once(dashboard.listen(0, "127.0.0.1"), "listening");
  path = await startDataPath("http://127.0.0.1:1", {
    tls: changingTls(hostCertificate(authority, hostId)),
    logs: async () => [{ at: "1700000000.000000001", line: "a line" }],
  });
  path.target({ dashboard: `http://127.0.0.1:${(dashboard.address() as AddressInfo).port}` });
  origin = `https://127.0.0.1:${path.port}`;
});
afterEach(async () => {
  await path.close();
  dashboard.closeAllConnections();
  dashboard.close();
});

const logs = (dial: Dial) =>
  instanceLogs(
    { store: { dataPath: async () => ({ origin, ticketKey }) }, dial },
    hostId,
    instanceId,
    { limit: 5 },
    limit(),
  );

async function visit(dial: Dial): Promise<string> {
  const ways = createWays(1, dial);
  try {
    const pool = ways.to({ instance: instanceId, hostId, origin, ticketKey });
    return await (await pool.request({ method: "GET", path: "/", signal: limit() })).body.text();
  } finally {
    await ways.close();
  }
}

it("logs come over it, and not to another host", async () => {
  expect(await logs(gateway)).toEqual([{ at: "1700000000.000000001", line: "a line" }]);
  await expect(logs(another)).rejects.toThrow("answered 403");
});

it("a dashboard is reached over it, and not by another host", async () => {
  expect(await visit(gateway)).toBe("a dashboard");
  const cause = { message: expect.stringContaining("answered 403") };
  await expect(visit(another)).rejects.toMatchObject({ code: "dashboard_host_away", cause });
});
