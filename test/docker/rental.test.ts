// A rental from the customer's request to the last bill: real control plane, real engine, and the agent of its own image, which
// joins by a token and sets its rules with the one power that docs/operations/installation.md gives it. Its GPUs are told of by a stand-in for
// nvidia-smi, so no GPU is handed into the container (STOKER_RENTAL_DEVICES=none).

import { execFile } from "node:child_process";
import { once } from "node:events";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { bridgePrefix } from "../../agent/docker/bridge-network.ts";
import { createRentalFirewall, rulesFor } from "../../agent/docker/rental-firewall.ts";
import { type Stack, startStack } from "../fakes/processes.ts";
import { agentImage, clear, docker, dockerHost, leftOf, stillThere, volumesOf } from "./docker-host.ts";
import { type Outside, startOutside } from "./outside.ts";
import { buildRentalImage, rentalImage } from "./rental-image.ts";
import { makeSshKey, reachScript, type SshKey } from "./ssh.ts";

const host = await dockerHost(
  "the agent's image enrolled, and a rental on it end to end: create, log in, what it reaches, what it costs, what is left",
  ["runtime", "agent"],
);
if (host.ok) await buildRentalImage();
if (host.ok)
  console.warn(
    "\n*** NOT PROVEN here: that a rented container is given its GPUs (this machine has none; stub nvidia-smi)\n",
  );
const run = promisify(execFile);
const wait = { timeout: 90_000, interval: 250 };
const usdPerHour = 36;
const agent = `stoker-rental-agent-test-${process.pid}`;
const socket = "/var/run/docker.sock";
const stub = join(import.meta.dirname, "../fixtures/nvidia-smi");
/** Has a shell and no SSH server. */
const bareImage = "localhost/stoker-base:bookworm";

interface Record {
  readonly id: string;
  readonly state: string;
  readonly ip: string | null;
  readonly ssh_port: number;
  readonly [key: string]: unknown;
}

describe.skipIf(!host.ok)("a rental", () => {
  let stack: Stack;
  let key: SshKey;
  let outside: Outside;
  let customer: string;
  let nodeName: string;

  const as = (secret: string, method: string, path: string, body?: unknown): ReturnType<Stack["call"]> =>
    stack.call(method, path, body, { authorization: `Bearer ${secret}` });
  const api = (method: string, path: string, body?: unknown) => as(customer, method, path, body);
  const record = async (id: string): Promise<Record> => (await api("GET", `/v1/containers/${id}`)).body;
  const running = (id: string) =>
    vi.waitFor(async () => {
      const one = await record(id);
      expect(one, JSON.stringify(one)).toMatchObject({ state: "running", ip: "127.0.0.1" });
      return one;
    }, wait);
  const agentFile = async () => JSON.parse(await readFile(join(stack.agentFolder(1), "agent.json"), "utf8"));
  const ownRules = () => new RegExp([...rulesFor(nodeName).v4.chains, bridgePrefix(nodeName)].join("|"));
  const request = (name: string, userData: string) => ({
    name,
    gpu_config: "1xH200-141GB",
    container_image: "debian-ssh",
    cloud_init_user_data: userData,
  });

  async function startAgent(): Promise<void> {
    const { rpc } = JSON.parse(await readFile(join(stack.folder, "control-plane.json"), "utf8"));
    const { body } = await stack.call("POST", "/v1/admin/nodes/tokens", { pool: "rented", ttl_seconds: 600 });
    const tokenFile = join(stack.folder, "join.token");
    await writeFile(tokenFile, body.token, { mode: 0o600 });
    await mkdir(stack.agentFolder(1), { recursive: true });
    const env = {
      STOKER_CONTROL: `127.0.0.1:${rpc}`,
      STOKER_JOIN_TOKEN_FILE: tokenFile,
      STOKER_AGENT_DATA: stack.agentFolder(1),
      STOKER_NODE_NAME: "node-1",
      PATH: `${stub}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin`,
      STUB_MACHINE: "h200",
      STOKER_RENTAL_IMAGES: `debian-ssh=${rentalImage},bare=${bareImage}`,
      STOKER_RENTAL_DEVICES: "none",
      STOKER_RENTAL_SUBNET: "10.235.0.0/20",
      STOKER_RENTAL_PORTS: "13500-13900",
      STOKER_RENTAL_ADDRESS: "127.0.0.1",
    };
    const mounts = [`${socket}:${socket}`, `${stack.folder}:${stack.folder}`, `${stub}:${stub}:ro`];
    await docker(
      ...["run", "--detach", "--name", agent, "--network", "host", "--user", "0:0", "--read-only", "--tmpfs", "/tmp"],
      ...["--cap-drop", "ALL", "--cap-add", "NET_ADMIN", "--security-opt", "no-new-privileges"],
      ...mounts.flatMap((mount) => ["--volume", mount]),
      ...Object.entries(env).flatMap(([name, value]) => ["--env", `${name}=${value}`]),
      agentImage,
    );
    await vi.waitFor(async () => {
      const { nodes } = (await stack.call("GET", "/v1/admin/nodes")).body;
      expect(nodes).toMatchObject([{ name: "node-1", pool: "rented", state: "ready" }]);
    }, wait);
  }
  const agentLog = async () => {
    const { stdout, stderr } = await run("docker", ["logs", agent], { maxBuffer: 16 * 1024 * 1024 });
    return stdout + stderr;
  };

  beforeAll(async () => {
    key = await makeSshKey();
    outside = await startOutside();
    stack = await startStack({ agents: 0 });
    await startAgent().catch(async (error) => {
      throw new Error(`the agent did not join:\n${await agentLog().catch(String)}`, { cause: error });
    });
    nodeName = `${(await agentFile()).host_id}-rentals`;
    const account = { email: "ada@example.com", display_name: "ada", credit_usd: 50 };
    customer = (await stack.call("POST", "/v1/admin/accounts", account)).body.api_key;
    // A minute has the price that held when it began.
    const effective_from = new Date(Date.now() - 58_000).toISOString();
    const price = { kind: "gpu", subject: "H200-141GB", rates: { hour: usdPerHour }, effective_from };
    expect((await stack.call("POST", "/v1/admin/prices", price)).status).toBe(200);
  }, 180_000);
  afterAll(async () => {
    if (stack && process.env["TEST_LOG"])
      console.log(`${stack.controlPlane.log().slice(-3000)}\n---\n${(await agentLog().catch(String)).slice(-6000)}`);
    if (host.ok) await docker("rm", "--force", agent).catch(() => undefined);
    await stack?.stop();
    await outside?.close();
    key?.forget();
    if (!nodeName) return;
    await clear(nodeName);
    await createRentalFirewall({ nodeName }).remove();
  }, 60_000);

  it("is offered with image, size and price, and refused with a reason without a key, an image, or capacity in the GPU pool", async () => {
    expect((await api("GET", "/v1/containers/params")).body).toEqual({
      container_images: ["bare", "debian-ssh"],
      gpu_configs: [1, 2, 3, 4, 5, 6, 7, 8].map((count) => `${count}xH200-141GB`),
    });
    expect((await api("GET", "/v1/containers/gpu_availability")).body.gpus[1]).toEqual({
      gpu_config: "2xH200-141GB",
      usd_per_hour: 2 * usdPerHour,
      available: true,
      recommended: false,
    });
    const asked = request("nobody", "#cloud-config\nruncmd: [date]\n");
    expect(await api("POST", "/v1/containers", asked)).toMatchObject({
      status: 400,
      body: { error: expect.stringContaining("no SSH key") },
    });
    const added = await api("POST", "/v1/ssh_keys", { name: "laptop", key: key.publicKey });
    expect(added.status).toBe(200);
    for (const [change, status, words] of [
      [{ container_image: "somebody/else" }, 422, /is not offered/],
      [{ gpu_config: "9xH200-141GB" }, 422, /1 to 8 GPUs/],
      [{ cloud_init_user_data: "echo hi" }, 400, /must start with #!/],
      [{ cloud_init_user_data: "#cloud-config\nruncmd: {" }, 400, /YAML/],
    ] as const) {
      const answer = await api("POST", "/v1/containers", { ...asked, ...change });
      expect(answer.status, JSON.stringify(answer.body)).toBe(status);
      expect(answer.body.error).toMatch(words);
    }
    expect((await api("GET", "/v1/containers")).body).toEqual([]);
  });

  it("is logged into by the account's key, set up once, kept apart, billed for its life, and leaves nothing", async () => {
    const userData = [
      "#cloud-config",
      "packages: [vim]",
      "users:",
      "  - default",
      "  - name: deploy",
      "    groups: [video, staff]",
      "    sudo: ALL=(ALL) NOPASSWD:ALL",
      `    ssh_authorized_keys: ["${key.publicKey}"]`,
      "write_files:",
      "  - path: /opt/it's here/motd",
      "    content: |",
      '      $(whoami) costs `nothing` "here"',
      '    permissions: "0640"',
      "    owner: root:staff",
      "runcmd:",
      "  - echo one >> /root/ran && false",
      '  - [touch, "/root/a file; with $HOME"]',
      "",
    ].join("\n");
    const created = await api("POST", "/v1/containers", request("work", userData));
    expect(created, JSON.stringify(created.body)).toMatchObject({ status: 200 });
    const id: string = created.body.container_id;
    expect(id).toMatch(/^container-\w{8}$/);
    expect((await api("POST", "/v1/containers", request("work", "#!/bin/sh"))).status).toBe(409);
    const other: string = (await api("POST", "/v1/containers", request("other", "#!/bin/sh"))).body.container_id;
    const bare = { ...request("bare", "#!/bin/sh"), container_image: "bare" };
    const unusable: string = (await api("POST", "/v1/containers", bare)).body.container_id;

    const one = await running(id);
    const readyAtMs = Date.now();
    // What must be gone afterwards is there now.
    expect((await leftOf(nodeName)).length).toBeGreaterThan(0);
    expect((await run("iptables-save")).stdout).toMatch(ownRules());
    expect(one).toMatchObject({ name: "work", gpu_config: "1xH200-141GB", price_per_hour: usdPerHour, stop_ts: null });
    await vi.waitFor(async () => expect(await key.ssh(one.ssh_port, "id -un")).toBe("ubuntu"), wait);

    // Set up as the user data says, once.
    await vi.waitFor(
      async () => expect(await key.ssh(one.ssh_port, "sudo ls /root | tr '\\n' '|'")).toBe("a file; with $HOME|ran|"),
      wait,
    );
    const shown = "cat '/opt/it'\"'\"'s here/motd'; stat -c '%a %U:%G' '/opt/it'\"'\"'s here/motd'";
    expect(await key.ssh(one.ssh_port, `sudo sh -c ${JSON.stringify(shown).replaceAll("$", "\\$")}`)).toBe(
      '$(whoami) costs `nothing` "here"\n640 root:staff',
    );
    expect(await key.ssh(one.ssh_port, "id -nG; sudo -n id -un", "deploy")).toMatch(
      /video.*staff.*\nroot$|staff.*video.*\nroot$/,
    );
    const log = async () =>
      (await api("GET", `/v1/logs/query?deploy_id=${id}`)).body.entries.map((entry: string[]) => entry[1]);
    await vi.waitFor(async () => {
      expect(await log()).toEqual(
        expect.arrayContaining([
          "stoker: cloud-config key packages is not supported and is ignored",
          "stoker: error: runcmd[0] failed",
          "stoker: error: cloud_init_user_data ended with exit code 1",
        ]),
      );
    }, wait);

    // An image that cannot be used ends in words, at once and for good.
    await vi.waitFor(async () => {
      const { state, fail_reason: why } = await record(unusable);
      expect({ state, why }).toEqual({ state: "failed", why: expect.stringMatching(/^image_unusable: /) });
      expect(why).toContain("this image has no SSH server; its operator must install openssh-server in it");
    }, wait);

    // Out to the world, and nowhere else.
    const neighbour = await running(other);
    const { ingress_port, metrics_port } = await agentFile();
    const gateway = await key.ssh(
      one.ssh_port,
      "ip route 2>/dev/null | sed -n 's/default via \\([^ ]*\\).*/\\1/p'; true",
    );
    const [hex = ""] = (await key.ssh(one.ssh_port, "awk '$2 == \"00000000\" {print $3}' /proc/net/route")).split("\n");
    const via =
      gateway ||
      hex
        .match(/../g)
        ?.reverse()
        .map((byte) => Number.parseInt(byte, 16))
        .join(".") ||
      "";
    expect(via).toMatch(/^10\.235\./);
    const reached = await key.ssh(
      one.ssh_port,
      reachScript({
        outside: [outside.address, outside.port],
        "mail outside": [outside.address, outside.mailPort],
        "agent by its bridge": [via, ingress_port],
        "agent from outside": [outside.host, ingress_port],
        "metrics page": [via, metrics_port],
        "control plane": [outside.host, Number(new URL(stack.url).port)],
        metadata: ["169.254.169.254", 80],
        "other rental": [outside.host, neighbour.ssh_port],
      }),
    );
    expect(reached.split("\n").sort()).toEqual([
      "agent by its bridge closed",
      "agent from outside closed",
      "control plane closed",
      "mail outside closed",
      "metadata closed",
      "metrics page closed",
      "other rental closed",
      "outside open",
    ]);
    // There is somebody to take mail: this host reaches it.
    const mail = connect({ host: outside.address, port: outside.mailPort });
    await once(mail, "connect", { signal: AbortSignal.timeout(20_000) });
    mail.destroy();

    // Another account sees nothing of it, and neither do the surfaces of models.
    const bob = (await stack.call("POST", "/v1/admin/accounts", { email: "bob@example.com", display_name: "bob" })).body
      .api_key;
    for (const [method, path] of [
      ["GET", ""],
      ["DELETE", ""],
      ["PATCH", ""],
    ] as const)
      expect(
        (await as(bob, method, `/v1/containers/${id}${path}`, method === "PATCH" ? { name: "x" } : undefined)).status,
      ).toBe(404);
    expect((await api("GET", "/deploy/list")).body).toEqual([]);
    expect((await api("DELETE", `/deploy/${id}`)).status).toBe(404);

    // Ended: gone at once from the list, then from the host.
    expect((await api("PATCH", `/v1/containers/${id}`, { name: "works" })).body).toMatchObject({ name: "works" });
    const volumes = await volumesOf(nodeName);
    const endedAtMs = Date.now();
    expect(await api("DELETE", `/v1/containers/${id}`)).toMatchObject({ status: 200, body: {} });
    expect((await api("DELETE", `/v1/containers/${id}`)).status).toBe(404);
    expect((await api("DELETE", `/v1/containers/${other}`)).status).toBe(200);
    await vi.waitFor(async () => {
      expect(await record(id)).toMatchObject({ state: "deleted", ip: null, stop_ts: expect.any(Number) });
      expect(await record(other)).toMatchObject({ state: "deleted" });
      expect(await leftOf(nodeName)).toEqual([]);
    }, wait);
    const goneAtMs = Date.now();
    await vi.waitFor(async () => expect((await run("iptables-save")).stdout).not.toMatch(ownRules()), wait);
    expect((await run("ip6tables-save")).stdout).not.toMatch(ownRules());
    expect((await api("GET", "/v1/containers")).body).toEqual([]);
    expect((await api("GET", "/v1/containers?state=inactive")).body).toHaveLength(3);
    expect(await stillThere(volumes)).toEqual([]);

    // The record of the last minute comes when that minute is over.
    const lifeSeconds = (endedAtMs - readyAtMs) / 1000;
    const from = Math.floor(readyAtMs / 1000) - 600;
    const billed = await vi.waitFor(
      async () => {
        const { id_to_duration } = (await api("GET", `/payment/usage/rent?from=${from}`)).body;
        expect(id_to_duration[id]).toBeGreaterThan(lifeSeconds - 15);
        expect(id_to_duration[other]).toBeGreaterThan(0);
        return id_to_duration as { readonly [id: string]: number };
      },
      { timeout: 90_000, interval: 500 },
    );
    // Between two looks nothing is billed, and nothing after its end.
    expect(billed[id]).toBeLessThan((goneAtMs - readyAtMs) / 1000 + 15);
    const paid = (await api("GET", "/payment/checklist")).body;
    const seconds = Object.values(billed).reduce((sum, one) => sum + one, 0);
    console.log(`a rental: alive ${lifeSeconds.toFixed(1)} s, billed ${billed[id]} s`);
    expect(50 + paid.payments_balance + paid.recent).toBeCloseTo((seconds * usdPerHour) / 3600, 1);
  }, 300_000);
});
