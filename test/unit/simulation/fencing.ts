// Fencing: two control planes, one of which may be older, send one agent its whole desired state and commands; messages are repeated,
// reordered and lost, sessions end, and the agent is killed.
import { pino } from "pino";
import { diff, type Step } from "../../../agent/reconcile/diff.ts";
import type { Observed } from "../../../agent/reconcile/driver.ts";
import { createFactsBook, type FactsBook } from "../../../agent/reconcile/facts.ts";
import { type Commands, createCommands } from "../../../agent/session/commands.ts";
import { judgeDesired } from "../../../agent/session/session.ts";
import type { CommandLog, KnownOutcome } from "../../../agent/session/store.ts";
import type { Command__Output } from "../../../proto/gen/stoker/fleet/v1/Command.ts";
import type { DesiredState__Output } from "../../../proto/gen/stoker/fleet/v1/DesiredState.ts";
import type { InstanceId } from "../../../proto/ids.ts";
import { instanceSpec, sighting } from "../../fakes/instance-spec.ts";
import type { Seeded } from "../../fakes/seed.ts";
import type { Simulated, Simulation } from "./simulate.ts";

const logger = pino({ level: "silent" });
const gpus = ["GPU-1", "GPU-2", "GPU-3"];

interface Instance {
  readonly id: InstanceId;
  generation: number;
  readonly gpuUuid: string;
  isTombstoned: boolean;
}

/** What a control plane reads in its database: an older one has an older copy. */
interface Database {
  epoch: bigint;
  generation: bigint;
  readonly instances: Instance[];
}

interface SessionOf {
  readonly database: Database;
  readonly epoch: bigint;
}

type Message = { readonly session: SessionOf } & (
  | { readonly kind: "desired"; readonly generation: bigint; readonly instances: readonly Instance[] }
  | { readonly kind: "command"; readonly command: Command__Output }
);

const gullible = "an agent that obeys any epoch";
const twice = "an agent that forgets its commands";
const eager = "an agent that removes what it is not told of";

function create(random: Seeded, defect?: string): Simulated {
  let nowMs = 1_000_000;
  let wrong: string | undefined;
  let serial = 0;
  const current: Database = { epoch: 10n, generation: 0n, instances: [] };
  /** A restored copy, whose epoch is behind. */
  const older: Database = { epoch: 0n, generation: 0n, instances: [] };
  let sessions: SessionOf[] = [];
  const messages: Message[] = [];
  const executed = new Map<string, { readonly epoch: bigint }>();

  // On the agent's disk.
  let highestEpoch = 0n;
  let desired: DesiredState__Output | undefined;
  const kept = new Map<string, { ended: KnownOutcome | undefined }>();
  // The machine.
  const containers = new Map<string, Observed & { readonly claimedGpus: readonly string[] }>();
  // In the agent's memory.
  let book: FactsBook;
  let commands: Commands;
  let run = 0;

  function startAgent(): void {
    run += 1;
    book = createFactsBook();
    const own = run;
    const log: CommandLog = {
      find: (id) => (defect === twice ? undefined : kept.get(id)),
      async begin(id) {
        if (own === run) kept.set(id, { ended: undefined });
      },
      async end(id, ended) {
        if (own === run) kept.set(id, { ended });
      },
    };
    commands = createCommands({
      log,
      executors: {
        async backup({ id }) {
          if (own !== run) return;
          if (executed.has(id)) wrong = `command ${id} ran twice`;
          executed.set(id, { epoch: highestEpoch });
        },
      },
      controlTimeMs: () => nowMs,
      desired: () => desired,
      logger,
    });
  }
  startAgent();

  const one = <T>(of: readonly T[]): T | undefined => of[random.between(0, Math.max(0, of.length - 1))];

  function connect(): string {
    const database = random.between(0, 3) === 0 ? older : current;
    // The database issues a new epoch for each registration; an older one issues epochs that it issued before.
    database.epoch += 1n;
    if (sessions.length > 1) sessions = sessions.slice(1);
    const session = { database, epoch: database.epoch };
    sessions.push(session);
    if (session.epoch > highestEpoch) highestEpoch = session.epoch;
    return `the ${database === older ? "older" : "current"} control plane welcomes it with epoch ${session.epoch}`;
  }

  function change(): string {
    const database = random.between(0, 3) === 0 ? older : current;
    const known = one(database.instances.filter(({ isTombstoned }) => !isTombstoned));
    database.generation += 1n;
    const dice = random.between(0, 3);
    if (known && dice === 0) {
      known.isTombstoned = true;
      return `${known.id} is deleted`;
    }
    if (known && dice === 1) {
      known.generation += 1;
      return `${known.id} gets generation ${known.generation}`;
    }
    const used = new Set(database.instances.filter(({ isTombstoned }) => !isTombstoned).map(({ gpuUuid }) => gpuUuid));
    const free = gpus.filter((uuid) => !used.has(uuid));
    const gpuUuid = one(free);
    if (gpuUuid === undefined) return "no GPU is free";
    const id = `instance-${++serial}` as InstanceId;
    database.instances.push({ id, generation: 1, gpuUuid, isTombstoned: false });
    return `${id} is placed on ${gpuUuid}`;
  }

  function send(): string {
    const session = one(sessions);
    if (!session) return "no session";
    if (random.between(0, 1) === 0) {
      const { generation, instances } = session.database;
      messages.push({ session, kind: "desired", generation, instances: instances.map((each) => ({ ...each })) });
      return `desired state ${session.epoch}/${generation} is sent`;
    }
    const commandId = `command-${random.between(0, 5) === 0 ? random.between(1, serial + 1) : ++serial}`;
    const about = one(session.database.instances);
    messages.push({
      session,
      kind: "command",
      command: {
        commandId,
        nodeEpoch: String(session.epoch),
        generation: about ? String(about.generation) : "0",
        deadlineMs: String(nowMs + 60_000),
        instanceId: about?.id ?? "",
        kind: "backup",
        arguments: "{}",
      },
    });
    return `${commandId} is sent with epoch ${session.epoch}`;
  }

  async function receive(): Promise<string> {
    const at = random.between(0, Math.max(0, messages.length - 1));
    const message = messages[at];
    if (!message) return "no message";
    // The others arrive again.
    if (random.between(0, 3) > 0) messages.splice(at, 1);
    const { session } = message;
    if (random.between(0, 9) === 0) return "a message is lost";
    if (message.kind === "command") {
      const { command } = message;
      const hadRun = executed.has(command.commandId);
      const mayRun = session.epoch >= highestEpoch;
      await commands.take(command, { session: session.epoch, highest: highestEpoch }, () => {});
      if (!hadRun && executed.has(command.commandId) && !mayRun)
        wrong = `${command.commandId} of epoch ${session.epoch} ran after epoch ${highestEpoch}`;
      return `${command.commandId} arrives`;
    }
    const stamp = { nodeEpoch: session.epoch, generation: message.generation };
    const before = desired && { nodeEpoch: BigInt(desired.nodeEpoch), generation: BigInt(desired.generation) };
    const verdict =
      defect === gullible
        ? ({ kind: "obey" } as const)
        : judgeDesired(stamp, { nodeEpoch: session.epoch }, highestEpoch, before);
    if (verdict.kind === "obey") {
      if (stamp.nodeEpoch < highestEpoch) wrong = `obeyed epoch ${stamp.nodeEpoch} after ${highestEpoch}`;
      if (before && stamp.generation < before.generation)
        wrong = `obeyed generation ${stamp.generation} after ${before.generation}`;
      desired = {
        nodeEpoch: String(stamp.nodeEpoch),
        generation: String(stamp.generation),
        instances: message.instances
          .filter(({ isTombstoned }) => !isTombstoned)
          .map(({ id, generation, gpuUuid }) =>
            instanceSpec({ instanceId: id, generation: String(generation), gpuUuids: [gpuUuid] }),
          ),
        ...{ prefetch: [], emptiedByMs: "0", moved: [] },
        tombstones: message.instances.filter(({ isTombstoned }) => isTombstoned).map(({ id }) => id),
      };
    }
    return `desired state ${stamp.nodeEpoch}/${stamp.generation} arrives: ${verdict.kind}`;
  }

  function reconcile(): string {
    const observed = new Map([...containers].map(([id, seen]) => [id as InstanceId, seen as Observed]));
    book.update(desired?.instances ?? [], desired?.tombstones ?? [], observed, nowMs);
    const steps = diff({
      desired,
      observed,
      facts: book.all,
      unsettled: new Set(),
      uses: new Map(),
      controlTimeMs: nowMs,
      minAwakeMs: 0,
      isHeld: false,
      nowMs,
    });
    for (const each of steps) apply(each);
    const isWanted = (id: string) => desired?.instances.some(({ instanceId }) => instanceId === id);
    const [stray] = [...observed.values()].filter((seen) => seen.state === "running" && !isWanted(seen.instanceId));
    if (defect === eager && stray?.state === "running")
      apply({ kind: "stop", id: stray.instanceId, seen: stray, why: "tombstone" });
    return `steps: ${steps.map(({ kind, id }) => `${kind} ${id}`).join(", ") || "none"}`;
  }

  function apply(each: Step): void {
    const { id } = each;
    const isDeleted = desired?.tombstones.includes(id) === true;
    switch (each.kind) {
      case "fetch":
        book.change(id, (facts) => ({ ...facts, weights: { kind: "here", modelPath: "/model" } }));
        break;
      case "start": {
        const generation = Number(each.spec.generation);
        const identity = `${++serial}@boot`;
        containers.set(id, { ...sighting("running", { id, generation, identity }), claimedGpus: each.spec.gpuUuids });
        return;
      }
      case "stop":
      case "restart": {
        const seen = containers.get(id);
        const wanted = desired?.instances.find(({ instanceId }) => instanceId === id);
        if (each.kind === "stop" && each.why === "tombstone" && !isDeleted) wrong = `${id} was stopped and not deleted`;
        if (each.kind === "stop" && each.why === "superseded" && Number(wanted?.generation) <= (seen?.generation ?? 0))
          wrong = `${id} was stopped for generation ${wanted?.generation}`;
        if (seen)
          containers.set(id, {
            ...sighting("exited", { id, generation: seen.generation, identity: seen.identity }),
            claimedGpus: [],
          });
        book.change(id, (facts) => ({ ...facts, countedExit: seen?.identity }));
        return;
      }
      case "remove":
        if (each.why === "tombstone" && !isDeleted) wrong = `${id} was removed and not deleted`;
        containers.delete(id);
        return;
      case "count-exit":
        book.change(id, (facts) => ({ ...facts, countedExit: each.seen.identity }));
        break;
      default:
        return;
    }
  }

  function endSession(): string {
    sessions = sessions.slice(1);
    return "a session ends";
  }

  function crash(): string {
    const id = one([...containers.keys()]);
    const seen = id === undefined ? undefined : containers.get(id);
    if (id === undefined || seen?.state !== "running") return "nothing runs";
    containers.set(id, {
      ...sighting("exited", { id, generation: seen.generation, identity: seen.identity }),
      claimedGpus: [],
    });
    return `${id} crashes`;
  }

  async function step(): Promise<string> {
    const dice = random.between(0, 99);
    nowMs += random.between(0, 500);
    if (dice < 18) return change();
    if (dice < 40) return send();
    if (dice < 65) return receive();
    if (dice < 90) return reconcile();
    if (dice < 94) return connect();
    if (dice < 96) return endSession();
    if (dice < 98) return crash();
    startAgent();
    return "the agent is killed and starts again";
  }

  function check(): string | undefined {
    if (wrong !== undefined) return wrong;
    const holders = new Map<string, string>();
    for (const [id, { state, claimedGpus }] of containers) {
      if (state === "exited") continue;
      for (const uuid of claimedGpus) {
        const other = holders.get(uuid);
        if (other !== undefined) return `${uuid} is held by ${other} and ${id}`;
        holders.set(uuid, id);
      }
    }
    return undefined;
  }

  return { step, check };
}

export const fencing: Simulation = { name: "fencing", defects: [gullible, twice, eager], create };
