// Does to a chaos world what a schedule says, and takes it back.
import { existsSync, globSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as pause } from "node:timers/promises";
import pg from "pg";
import { hostCertificate, newAuthority } from "../../fakes/peers.ts";
import { instancePids, isAlive, type Part } from "../../fakes/processes.ts";
import type { LinkShape, TcpLink } from "../../fakes/tcp-link.ts";
import { type ChaosWorld, deployFromHub } from "./chaos-world.ts";
import type { Clients } from "./clients.ts";
import { controlPlanePoints, type Event, type FaultName, lineOf } from "./schedule.ts";

type Undo = (() => unknown) | undefined;
type Inflict = (world: ChaosWorld, event: Event, clients: Clients) => Undo | Promise<Undo>;

const numberOf = (target: string): number => Number(target.at(-1));
const agentOf = ({ stack }: ChaosWorld, target: string) => stack.agents[numberOf(target) - 1] as Part;
const partOf = (world: ChaosWorld, target: string): Part =>
  target.startsWith("agent") ? agentOf(world, target) : (world.stack.controlPlanes[numberOf(target) - 1] as Part);
const linkOf = ({ links }: ChaosWorld, target: string) => links.get(target) as TcpLink;

const shaped =
  (shape: LinkShape): Inflict =>
  (world, { target }) => {
    const link = linkOf(world, target);
    link.shape(shape);
    // Bytes that were dropped leave both ends of a connection with different ideas of it.
    return () => (shape.drops ? link.heal() : link.shape({}));
  };
const cut =
  (how: "refused" | "silent"): Inflict =>
  (world, { target }) => {
    const link = linkOf(world, target);
    link.cut(how);
    return () => link.heal();
  };
const killed: Inflict = async (world, { target }) => {
  const part = partOf(world, target);
  await part.kill9();
  return () => part.start();
};
/** Kills itself at its next point of this name, if it comes to it in time. */
const atPoint =
  (pointOf: (event: Event) => string): Inflict =>
  (world, event) => {
    const { target } = event;
    const part = partOf(world, target);
    const fuse = world.fuse(target, pointOf(event));
    world.armed.add(target);
    writeFileSync(fuse, "");
    return () => {
      // The process deletes it before it kills itself.
      if (existsSync(fuse)) world.armed.delete(target);
      rmSync(fuse, { force: true });
      if (!part.isRunning) part.start();
    };
  };
const stopped: Inflict = (world, { target }) => {
  const { pid } = partOf(world, target);
  process.kill(pid, "SIGSTOP");
  return () => process.kill(pid, "SIGCONT");
};
const brokenSmi =
  (fault: string): Inflict =>
  (world, { target }) => {
    world.breakNvidiaSmi(numberOf(target), fault);
    return () => world.breakNvidiaSmi(numberOf(target), "");
  };
const engine =
  (behaviour: Parameters<ChaosWorld["engine"]["behave"]>[0], calm: typeof behaviour): Inflict =>
  (world) => {
    world.engine.behave(behaviour);
    return () => world.engine.behave(calm);
  };
const receiver =
  (answer: Parameters<ChaosWorld["receiver"]["answer"]>[0]): Inflict =>
  (world) => {
    world.receiver.answer(answer);
    return () => world.receiver.answer(undefined);
  };

/** A process of the model whose instances agents start; undefined where none runs. */
const instance = ({ stack }: ChaosWorld): number | undefined =>
  [1, 2, 3].flatMap((n) => instancePids(stack.agentFolder(n))).find(isAlive);

async function withDatabase<T>({ stack }: ChaosWorld, work: (client: pg.Client) => Promise<T>): Promise<T | undefined> {
  const client = new pg.Client({ connectionString: stack.databaseUrl, connectionTimeoutMillis: 2_000 });
  client.on("error", () => {});
  try {
    await client.connect();
    return await work(client);
  } catch {
    // Another fault has it at the moment.
    return undefined;
  } finally {
    await client.end().catch(() => {});
  }
}

/** Of an agent that does not run. */
const fileOf = (world: ChaosWorld, target: string, name: string): string => {
  const folder = world.stack.agentFolder(numberOf(target));
  const [found] = globSync(`**/${name}`, { cwd: folder });
  if (found === undefined) throw new Error(`${target} has no ${name}`);
  return join(folder, found);
};

const inflictions: Readonly<Record<FaultName, Inflict>> = {
  "kill-control-plane": killed,
  "kill-agent": killed,
  "kill-agent-after-record": atPoint(() => "after_record"),
  "kill-at-point": atPoint(({ ms }) => controlPlanePoints[ms % controlPlanePoints.length] as string),
  async "kill-agents-after-start"(world, event, clients) {
    const disarm = await Promise.all(
      world.stack.agents.map((_, i) =>
        atPoint(() => "after_start")(world, { ...event, target: `agent-${i + 1}` }, clients),
      ),
    );
    const deployId = await deployFromHub(world.stack, "admin/started", 1, "L4-24GB").catch(() => undefined);
    return async () => {
      for (const undo of disarm) await undo?.();
      if (deployId) world.downloads.push(deployId);
    };
  },
  async "wipe-job-tables"(world) {
    await withDatabase(world, async (client) => {
      const { rows } = await client.query<{ name: string }>(
        "select format('%I.%I', schemaname, tablename) as name from pg_tables where schemaname = 'stoker_jobs' and tablename !~ 'migration'",
      );
      if (rows.length > 0) await client.query(`truncate ${rows.map(({ name }) => name).join(", ")} cascade`);
    });
    return undefined;
  },
  async "kill-redis"({ redis }) {
    await redis?.kill9();
    return () => redis?.start();
  },
  async "empty-redis"({ redis }) {
    await redis?.flush();
    return undefined;
  },
  async "kill-postgres"({ stack }) {
    await stack.postgres.kill9();
    return () => stack.postgres.restart();
  },
  async "end-database-connections"(world) {
    await withDatabase(world, (client) =>
      client.query(
        "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and datname is not null",
      ),
    );
    return undefined;
  },
  "lock-budgets"(world, { ms }) {
    const locked = withDatabase(world, async (client) => {
      await client.query("begin");
      await client.query("lock table budget in access exclusive mode");
      await pause(ms);
      await client.query("rollback");
    });
    return () => locked;
  },
  "freeze-postgres"({ stack }) {
    stack.postgres.freeze();
    return () => stack.postgres.thaw();
  },
  "cut-link": cut("refused"),
  "silence-link": cut("silent"),
  "drop-requests": shaped({ drops: "requests" }),
  "drop-replies": shaped({ drops: "replies" }),
  "delay-link": shaped({ delayMs: 2_000 }),
  "trickle-link": shaped({ isTrickling: true }),
  "reset-link"(world, { target }) {
    linkOf(world, target).reset();
    return undefined;
  },
  async "restart-docker"({ docker }) {
    await docker?.stop("SIGTERM");
    return () => docker?.start();
  },
  "crash-instance"(world) {
    const pid = instance(world);
    if (pid !== undefined) process.kill(pid, "SIGSEGV");
    return undefined;
  },
  "hang-instance"(world) {
    const pid = instance(world);
    if (pid === undefined) return undefined;
    process.kill(pid, "SIGSTOP");
    return () => isAlive(pid) && process.kill(pid, "SIGCONT");
  },
  "hang-engine": engine({ hangAfter: 3 }, { hangAfter: -1 }),
  "break-streams": engine({ breakAfter: 3 }, { breakAfter: -1 }),
  "fail-engine": engine({ status: 500 }, { status: 200 }),
  "fill-disk"({ disk }) {
    disk?.fill();
    return () => disk?.free();
  },
  "step-clock"(world, { target, ms }) {
    // An hour, ahead or back, as the length of the event happens to be even or odd.
    world.stepClock(target, ms % 2 === 0 ? 3_600_000 : -3_600_000);
    return () => world.stepClock(target, 0);
  },
  "stop-agent": stopped,
  async "resend-records"(world, { target }) {
    const part = partOf(world, target);
    await part.kill9();
    const database = new DatabaseSync(fileOf(world, target, "state.db"));
    try {
      // Newest first would be another order; ids are the order in which an agent sends.
      database.exec("INSERT OR IGNORE INTO records SELECT spool_id, kept_ms, lease_ids, record FROM kept");
    } finally {
      database.close();
      part.start();
    }
    return undefined;
  },
  async "break-downloads"(world) {
    const { faults } = world.hub;
    Object.assign(faults, { refuse: { status: 429, times: 3 }, cut: { afterBytes: 50_000, times: 1 }, corrupt: 1 });
    const deployId = await deployFromHub(world.stack, "admin/download", 1, "L4-24GB").catch(() => undefined);
    return async () => {
      for (const name of ["refuse", "cut", "corrupt"] as const) delete faults[name];
      if (deployId) world.downloads.push(deployId);
    };
  },
  "fail-receiver": receiver((_, res) => res.writeHead(500).end()),
  "hang-receiver": receiver(() => {}),
  "reset-receiver": receiver((_, res) => res.socket?.resetAndDestroy()),
  "clients-leave"(_, __, clients) {
    clients.leave(true);
    return () => clients.leave(false);
  },
  "clients-read-slowly"(_, __, clients) {
    clients.readSlowly(true);
    return () => clients.readSlowly(false);
  },
  "hang-nvidia-smi": brokenSmi("hang"),
  "fail-nvidia-smi": brokenSmi("exit9"),
  async "clone-agent"(world, { target }) {
    const clone = await world.startClone(numberOf(target));
    return () => clone.stop();
  },
  "stop-control-plane": stopped,
  async "expire-certificate"(world, { target }) {
    const part = partOf(world, target);
    await part.kill9();
    const file = fileOf(world, target, "certificate.json");
    const kept = JSON.parse(readFileSync(file, "utf8"));
    const { certificatePem } = hostCertificate(newAuthority(), "expired", Date.now() - 1_000);
    writeFileSync(file, JSON.stringify({ ...kept, certificatePem }));
    return () => part.start();
  },
  async "lose-state"(world, { target }) {
    const part = partOf(world, target);
    await part.kill9();
    const file = fileOf(world, target, "state.db");
    for (const name of [file, `${file}-wal`, `${file}-shm`])
      if (existsSync(name)) writeFileSync(name, "not a database");
    return () => part.start();
  },
};

/** Faults that start the process again themselves. */
const downing: ReadonlySet<FaultName> = new Set([
  "kill-control-plane",
  "kill-agent",
  "kill-agent-after-record",
  "kill-at-point",
  "resend-records",
  "expire-certificate",
  "lose-state",
]);

export interface Supervisor {
  readonly restarts: number;
  end(): void;
}

/** Starts processes again that ended by themselves, as `up`, systemd and Kubernetes do. Whether they may: `exits.ts`. */
export function supervise({ stack, down }: ChaosWorld): Supervisor {
  let restarts = 0;
  const parts = [...stack.controlPlanes.map((part, i) => ({ name: `control-plane-${i + 1}`, part }))];
  const all = [...parts, ...stack.agents.map((part, i) => ({ name: `agent-${i + 1}`, part }))];
  const timer = setInterval(() => {
    for (const { name, part } of all) {
      if (part.isRunning || down.has(name)) continue;
      restarts += 1;
      part.start();
    }
  }, 1_000);
  return {
    get restarts() {
      return restarts;
    },
    end: () => clearInterval(timer),
  };
}

export interface Inflicted extends Event {
  /** Monotonic. */
  readonly beganMs: number;
  endedMs: number;
}

/** Runs the whole schedule; resolves when everything was taken back. `log` receives what happens. */
export async function inflictAll(
  world: ChaosWorld,
  events: readonly Event[],
  clients: Clients,
  log: (line: string) => void,
): Promise<readonly Inflicted[]> {
  const startMs = performance.now();
  const done: Inflicted[] = [];
  const run = async (event: Event) => {
    await pause(Math.max(0, startMs + event.atMs - performance.now()));
    const one: Inflicted = { ...event, beganMs: performance.now(), endedMs: Number.POSITIVE_INFINITY };
    done.push(one);
    log(lineOf(event));
    if (downing.has(event.fault)) world.down.add(event.target);
    const undo = await inflictions[event.fault](world, event, clients);
    await pause(event.ms);
    await undo?.();
    world.down.delete(event.target);
    one.endedMs = performance.now();
  };
  // On a slow machine what was done to a process may be taken back only after the next fault of it is due.
  const ofTarget = new Map<string, Promise<void>>();
  const all = events.map((event) => {
    const after = (ofTarget.get(event.target) ?? Promise.resolve()).then(() => run(event));
    ofTarget.set(event.target, after);
    return after;
  });
  // Nothing may still happen to a world that is stopped.
  await Promise.allSettled(all);
  await Promise.all(all);
  return done;
}
