// A control plane replica without HTTP and money: the real fleet, deployments, sessions, change feed and database.
import { randomBytes } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pino from "pino";
import { Registry } from "prom-client";
import type { AccountSecrets } from "../../../control-plane/accounts/envelope.ts";
import { createDeployment, type DeployRequest } from "../../../control-plane/deployments/create.ts";
import type { TimeHolds } from "../../../control-plane/deployments/dedicated-money.ts";
import { nodeLifeMs } from "../../../control-plane/fleet/authority.ts";
import type { HostClockLimits } from "../../../control-plane/fleet/host-clocks.ts";
import type { JobsAddress } from "../../../control-plane/jobs/backend.ts";
import { createGrpcServer } from "../../../control-plane/rpc/grpc-server.ts";
import { createChangeFeed } from "../../../control-plane/store/core/change-feed.ts";
import { type OpenDatabase, openDatabase } from "../../../control-plane/store/core/database.ts";
import { migrateDatabase } from "../../../control-plane/store/core/migrate.ts";
import { createFleet, type FleetParts } from "../../../control-plane/wiring/fleet.ts";
import { createNodes } from "../../../control-plane/wiring/nodes.ts";
import type { AccountId } from "../../../proto/ids.ts";

const standingSecret = "a-join-secret-of-the-tests";
export const ada = { account: "u:ada" as AccountId, displayName: "ada", suspendReason: null };
/** Nobody pays here. */
export const freeTime = { funds: async () => null, firstMinutes: async () => 0n };
export const gpuDefaults = { perType: 1_000 };
/** A second lasts as long as here: 1/20 of the real clocks. */
export const scaledLimits: HostClockLimits = { leaseMs: 1_000, lostMs: 3_000 };
/** Of all replicas of a file: they share its databases. */
const secrets: AccountSecrets = { keks: [{ version: 1, bytes: randomBytes(32) }], pepper: randomBytes(32) };
const log = pino({ level: process.env["TEST_LOG"] ?? "silent" });

export type Replica = Awaited<ReturnType<typeof startReplica>>;

export async function startReplica(
  url: string,
  options: {
    limits?: HostClockLimits;
    owner?: string;
    port?: number;
    holds?: TimeHolds;
    certificateLifeMs?: number;
    renewEveryMs?: number;
    /** Of the looks that happen anyway. */
    resyncMs?: number;
    /** Where timers are kept; nowhere without it. */
    jobs?: JobsAddress;
    mayBePlain?: (hostname: string) => boolean;
    /** Instead of acknowledging every record. */
    settle?: (db: OpenDatabase["db"]) => FleetParts["settle"];
  } = {},
) {
  await migrateDatabase(url, { log });
  const { db, pool, close } = openDatabase(url, { maxConnections: 8, log });
  await db
    .insertInto("account")
    .values({
      accountId: ada.account,
      email: "ada@example.com",
      displayName: "ada",
      suspendReason: null,
      wrappedDek: randomBytes(60),
      kekVersion: 1,
      deletedAt: null,
    })
    .onConflict((at) => at.doNothing())
    .execute();
  const secretsDir = mkdtempSync(join(tmpdir(), "stoker-secrets-"));
  const alerts: string[] = [];
  const listening = pino(
    { level: "error" },
    { write: (line: string) => void alerts.push(JSON.parse(line).alert ?? line) },
  );
  const feed = createChangeFeed({ pool, log });
  const stopping = new AbortController();
  const fleet = createFleet({
    db,
    feed,
    seal: { seal: (key) => Buffer.from(key).reverse(), open: (sealed) => Buffer.from(sealed).reverse() },
    openToken: async (_, sealed) => sealed.toString().replace("sealed ", ""),
    settle:
      options.settle?.(db) ??
      (async (records) => records.filter((one) => one.requestId !== "lose me").map((one) => String(one.spoolId))),
    ...(options.holds ? { holds: options.holds } : {}),
    owner: options.owner ?? "replica",
    dataPaths: { issue: (id) => nodes.issueGateway(id), mayBePlain: options.mayBePlain ?? (() => false) },
    limits: options.limits ?? { leaseMs: 20_000, lostMs: 60_000 },
    times: { leaseTtlMs: 20_000, renewEveryMs: options.renewEveryMs ?? 5_000, reportEveryMs: 5_000 },
    log: listening,
    beatEveryMs: 100,
    resyncMs: options.resyncMs ?? 300,
    ...(options.jobs ? { jobs: { address: options.jobs, registry: new Registry() } } : {}),
  });
  await feed.start();
  await fleet.load();
  const nodes = await createNodes({
    db,
    fleetStore: fleet.fleetStore,
    secrets,
    standingSecret,
    agentTokenFile: join(secretsDir, "agent.token"),
    certificateLifeMs: options.certificateLifeMs ?? nodeLifeMs,
    log,
  });
  const grpc = createGrpcServer({ ...nodes.rpc, onStream: fleet.sessions.accept, log });
  const port = await grpc.listen("127.0.0.1", options.port ?? 0);
  const running = Promise.all([fleet.run(stopping.signal), fleet.control.run(stopping.signal)]);

  return {
    ...fleet,
    db,
    alerts,
    enrolment: nodes.enrolment,
    /** Lets any host in. */
    joinToken: readFileSync(join(secretsDir, "agent.token"), "utf8").trim(),
    port,
    address: `127.0.0.1:${port}`,
    deploy: (over: Partial<DeployRequest> = {}, owner = ada) =>
      createDeployment(
        {
          store: fleet.deploymentStore,
          ...freeTime,
          gpuDefaults,
          sealToken: async (_, token) => Buffer.from(`sealed ${token}`),
          demoModel: () => undefined,
          publicModel: async () => undefined,
          lookAtRepo: async () => ({ kind: "unreachable" }),
        },
        owner,
        {
          modelName: "ada/llm",
          gpu: "other",
          numGpus: 1,
          maxBatchSize: 4,
          hf: { repo: "ada/weights" },
          baseModel: undefined,
          minInstances: 1,
          maxInstances: 1,
          extraArgs: [],
          ...over,
        },
      ),
    get: (id: Parameters<typeof fleet.deploymentStore.get>[0]) => fleet.deploymentStore.get(id, ada.account),
    /** As a kill would: nothing is said to anybody. */
    async stop() {
      fleet.sessions.close();
      await grpc.close();
      stopping.abort();
      await running;
      await feed.stop();
      await close();
      rmSync(secretsDir, { recursive: true, force: true });
    },
  };
}
