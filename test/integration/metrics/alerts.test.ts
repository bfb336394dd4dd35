// Each alert of deploy/alerts.yaml fires at a real Prometheus once its fault is there. Minutes of the rules are seconds here.
import { mkdirSync, readFileSync, rmdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { query } from "../../e2e/spine/database.ts";
import { startFakeAgent } from "../../fakes/agent-session.ts";
import { ticketFor } from "../../fakes/data-path.ts";
import { type ExternalStack, startExternalStack } from "../../fakes/external-stack.ts";
import { freePort } from "../../fakes/free-port.ts";
import { isAlive, type LocalAgent, makeLocalAgent } from "../../fakes/local-agent.ts";
import { alertRules, hasPrometheus, type Prometheus, startPrometheus } from "../../fakes/prometheus.ts";
import { recordOf } from "../../fakes/seals.ts";
import { mountSmallDisk, type SmallDisk } from "../../fakes/small-disk.ts";
import { startWebhookReceiver, type WebhookReceiver } from "../../fakes/webhook-receiver.ts";

const promise = "that each alert fires at a real Prometheus once its fault is there";
if (!hasPrometheus) console.log(`Skipped: no Prometheus, so NOT PROVEN: ${promise}.`);
const patient = { timeout: 180_000, interval: 500 };
const batch = 4;

const shortened = alertRules
  .replaceAll(/for: \d+m/g, "for: 2s")
  .replaceAll(/\[(?:30m|1h)\]/g, "[120s]")
  .replaceAll(/\[\d+m\]/g, "[30s]")
  .replace("stoker_agent_spool_oldest_age_seconds > 300", "stoker_agent_spool_oldest_age_seconds > 3");
const alerts = [...alertRules.matchAll(/- alert: (\w+)/g)].map(([, name]) => name as string);

describe.skipIf(!hasPrometheus)("an alert", { timeout: 300_000 }, () => {
  let world: ExternalStack;
  let gpuHost: LocalAgent;
  let disk: SmallDisk | undefined;
  let receiver: WebhookReceiver;
  let prometheus: Prometheus;
  let kernelLog = "";
  let clock = "";
  const fired = new Set<string>();
  const waiters: Promise<unknown>[] = [];
  const letGo: (() => void)[] = [];

  beforeAll(async () => {
    disk = mountSmallDisk(256, "an alert for a full disk, and one for a fault of a GPU");
    gpuHost = makeLocalAgent();
    await startGpuHost();
    receiver = await startWebhookReceiver();
    receiver.answer((_, res) => void res.writeHead(500).end());
    clock = join(gpuHost.folder, "clock");
    writeFileSync(clock, "0");
    world = await startExternalStack({
      isDatabaseOnDisk: true,
      maxBatchSize: batch,
      controlPlaneEnv: {
        STOKER_HOST_CLOCKS: "0.2",
        // The same after a restart, where Prometheus looks.
        STOKER_ADMIN_PORT: String(await freePort()),
        STOKER_WEBHOOK_CLOCKS: "0.001",
        STOKER_WEBHOOK_ALLOW_PRIVATE: "1",
        // Stands for one that was not renewed.
        STOKER_NODE_CERTIFICATE_HOURS: "1",
      },
      agentEnv: {
        NODE_OPTIONS: `--import=${pathToFileURL(join(import.meta.dirname, "../../fakes/stepped-clock.ts"))}`,
        STOKER_TEST_CLOCK_FILE: clock,
      },
    });
    prometheus = await startPrometheus(world.stack, {
      rules: shortened,
      targets: [`127.0.0.1:${gpuHost.ports().metrics_port}`],
    });
  }, 240_000);
  afterAll(async () => {
    for (const release of letGo) release();
    await Promise.allSettled(waiters);
    await prometheus?.stop();
    await world?.stop();
    await receiver?.close();
    await gpuHost?.clean();
    disk?.unmount();
  });

  /** A host with GPUs, on a disk of its own, whose kernel log is a file. */
  async function startGpuHost(): Promise<void> {
    const { folder } = gpuHost;
    const bin = join(folder, "bin");
    mkdirSync(bin);
    const machines = join(import.meta.dirname, "../../fixtures/nvidia-smi");
    symlinkSync(join(machines, "nvidia-smi"), join(bin, "nvidia-smi"));
    kernelLog = join(folder, "kmsg");
    writeFileSync(kernelLog, "");
    if (disk) {
      rmdirSync(join(folder, "data"));
      symlinkSync(disk.folder, join(folder, "data"));
    }
    gpuHost.want([gpuHost.spec()]);
    const env = { PATH: `${bin}:${process.env["PATH"]}`, STUB_MACHINE: join(machines, "h100") };
    // A mount that only this process sees.
    const mount = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /dev/kmsg && exec "$@"', kernelLog];
    gpuHost.start(env, disk ? mount : []);
    await vi.waitFor(() => expect(gpuHost.ports().metrics_port).toBeGreaterThan(0), patient);
  }

  /** `meanwhile`: done before each look. */
  async function fires(name: string, meanwhile?: () => unknown): Promise<void> {
    expect(alerts).toContain(name);
    await vi.waitFor(async () => {
      await meanwhile?.();
      const { data } = await prometheus.ask(`ALERTS{alertname="${name}",alertstate="firing"}`);
      expect(data.result.length).toBeGreaterThan(0);
    }, patient);
    fired.add(name);
  }

  const complete = (body: object) =>
    fetch(`${world.stack.url}/v1/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${world.stack.apiKey}`, "content-type": "application/json" },
      body: JSON.stringify({ model: world.model, prompt: "hello", max_tokens: 4, ...body }),
    }).then((reply) => reply.text());

  /** The engine answers nothing until what this returns is called. */
  function holdAnswers(): () => void {
    const { promise: until, resolve } = Promise.withResolvers<void>();
    world.engine.behave({ until });
    const release = () => {
      world.engine.behave({ until: undefined });
      resolve();
    };
    letGo.push(release);
    return release;
  }
  const inBackground = (work: Promise<unknown>) => void waiters.push(work.catch(() => {}));

  it("fires for an instance that does not stay", () => {
    const killed = new Set<number>();
    return fires("InstanceCrashLoop", () => {
      for (const pid of gpuHost.pids().filter((one) => !killed.has(one) && isAlive(one))) {
        process.kill(pid, "SIGKILL");
        killed.add(pid);
      }
    });
  });

  it("fires for a GPU whose figures are those of a broken one", () => fires("GpuUnhealthy"));

  it("fires for a GPU that the kernel log reports lost", async ({ skip }) => {
    if (!disk) skip("only root can give a process a kernel log of its own");
    writeFileSync(kernelLog, "4,1,1000000,-;NVRM: Xid (PCI:0000:1b:00): 79, pid=0, GPU has fallen off the bus.\n");
    await fires("GpuXid");
  });

  it("fires for a disk of which less than a tenth is free", async ({ skip }) => {
    if (!disk) return skip("no small disk could be mounted");
    writeFileSync(join(disk.folder, "weights"), Buffer.alloc(240 * 2 ** 20));
    await fires("DiskFree");
  });

  it("fires for a certificate that was not renewed", () => fires("CertExpiry"));

  it("fires for a full key-value cache", async () => {
    world.engine.behave({ metrics: "# TYPE vllm:kv_cache_usage_perc gauge\nvllm:kv_cache_usage_perc 0.99\n" });
    await fires("KvCacheFull");
    world.engine.behave({ metrics: undefined });
  });

  it("fires for requests that wait beside free places", async () => {
    const release = holdAnswers();
    inBackground(complete({ n: batch - 1 }));
    await vi.waitFor(() => expect(world.engine.running).toBe(1), patient);
    inBackground(complete({ n: 2 }));
    await fires("WaitingBesideFreePlaces");
    release();
  });

  it("fires for money holds that only grow", async () => {
    const release = holdAnswers();
    await fires("HoldsOpen", () => inBackground(complete({})));
    release();
    await vi.waitFor(() => expect(world.engine.running).toBe(0), patient);
  });

  it("fires for first tokens that come late", async () => {
    world.engine.behave({ firstByteMs: 3_000 });
    await fires("TtftOverObjective", () => complete({ stream: true }));
    world.engine.behave({ firstByteMs: 0 });
  });

  it("fires for usage that no request can have", async () => {
    world.engine.behave({ promptTokens: 1_000_000_000 });
    // An answer as a whole with such usage is refused; of a stream the text was delivered.
    await complete({ stream: true });
    await fires("UsageRejected");
    world.engine.behave({ promptTokens: undefined });
  });

  it("fires for usage records whose seal is not the control plane's, and for a host that is gone", async () => {
    const rogue = await startFakeAgent({
      address: world.stack.rpcAddress,
      token: readFileSync(join(world.stack.secretsDir, "agent.token"), "utf8").trim(),
      hostId: "rogue0000000001",
    });
    try {
      rogue.connect();
      await vi.waitFor(() => expect(rogue.welcome).toBeDefined(), patient);
      const record = recordOf(ticketFor({ hostId: rogue.hostId }), { outputTokens: 4 });
      rogue.send({ body: "usage", usage: { records: JSON.stringify([record]) } });
      await fires("UsageQuarantined");
    } finally {
      await rogue.close();
    }
    // It does not come back.
    await fires("NodeLeaseLost");
  });

  it("fires for ledger entries without their counterpart", async () => {
    const post = (amount: number) =>
      query(
        world.stack.databaseUrl,
        `insert into ledger_entry (transaction_id, book, account_id, amount, kind, posted_at)
          select 'alone', book, account_id, ${amount}, kind, now() from ledger_entry limit 1`,
      );
    await post(1);
    await fires("LedgerImbalance");
    await post(-1);
  });

  it("fires for webhooks that were given up", async () => {
    const request = { input: "hello", max_new_tokens: 4, webhook: `${receiver.origin}/hook` };
    expect((await world.stack.call("POST", `/v1/inference/${world.model}`, request)).status).toBe(200);
    await fires("WebhookExhausted");
  });

  it("fires for a host whose clock is wrong", async () => {
    writeFileSync(clock, "10000");
    await fires("ClockSkew");
    writeFileSync(clock, "0");
  });

  it("fires for an agent without a control plane, and for usage records that wait at it", async () => {
    holdAnswers();
    inBackground(complete({ stream: true }));
    await vi.waitFor(() => expect(world.engine.running).toBe(1), patient);
    // The agent ends the request of the gateway that is gone, and cannot deliver its record.
    await world.stack.controlPlane.kill9();
    await fires("AgentDisconnected");
    await fires("SpoolAge");
    world.stack.controlPlane.start();
    await vi.waitFor(
      async () => expect((await world.stack.call("GET", "/readyz").catch(() => undefined))?.status).toBe(200),
      patient,
    );
  });

  it("fires for a database that was restored, until every host has sent its usage again", async () => {
    const { stack } = world;
    world.engine.behave({ until: undefined });
    await stack.controlPlane.stop();
    const backup = await stack.postgres.createDatabase(stack.databaseUrl);
    stack.controlPlane.start();
    await vi.waitFor(async () => expect(JSON.parse(await complete({})).usage).toBeDefined(), patient);
    await stack.controlPlane.kill9();
    stack.controlPlane.start({ DATABASE_URL: backup });
    await fires("DatabaseRestored");
  });

  it("is in this list whichever it is", () => {
    const withoutDisk = disk ? [] : ["DiskFree", "GpuXid"];
    expect([...fired, ...withoutDisk].toSorted()).toEqual(alerts.toSorted());
  });
});
