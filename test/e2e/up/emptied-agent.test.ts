// `up` on a data folder whose agent folder was emptied.
import { existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { freePort } from "../../fakes/free-port.ts";
import { clearUp, newDataDir, startUp, type Up } from "./start-up.ts";

const flags = ["--model", "none", "--driver", "process"];
let up: Up | undefined;
afterEach(async () => {
  if (up) await clearUp(up);
});

const nodes = async (one: Up): Promise<{ node_id: string; state: string }[]> => {
  const response = await fetch(`${one.url}/v1/admin/nodes`, { headers: { authorization: `Bearer ${one.key()}` } });
  return ((await response.json()) as { nodes: { node_id: string; state: string }[] }).nodes;
};

test("lets the agent join again as the same host, and prints what happened", async () => {
  const dataDir = newDataDir();
  const folder = join(dataDir, "agents", "1");
  const port = await freePort();
  up = startUp(dataDir, port, flags);
  await up.ready();
  const [before] = await nodes(up);
  up.process.kill("SIGTERM");
  expect(await up.ended()).toBe(0);
  // Machines without an id of their own would get another host.
  const hostId = readFileSync(join(folder, "state.db.host-id"), "utf8").trim();
  rmSync(folder, { recursive: true });

  up = startUp(dataDir, port, flags);
  await up.ready();
  // `up` is ready when the control plane has heard from the agent since this start, so it has joined by now.
  expect(up.output()).toContain(`The agent has lost its identity: ${folder} was emptied.`);
  expect(existsSync(join(folder, "identity", "certificate.json"))).toBe(true);
  expect(await nodes(up)).toMatchObject([{ node_id: hostId, state: "ready" }]);
  expect(before?.node_id).toBe(hostId);
}, 300_000);
