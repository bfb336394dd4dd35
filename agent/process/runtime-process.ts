// One runtime process from launch to end, started by this agent or adopted from an earlier one. An adopted process cannot be
// awaited: its identity is polled, and its exit code stays unknown.
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync, readFileSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { setTimeout as wait } from "node:timers/promises";
import type { BearerSecret } from "../../proto/bearer-secret.ts";
import type { ContainerPlan, Observed } from "../reconcile/driver.ts";
import {
  type Exit,
  type InstanceFolder,
  type Launch,
  readExit,
  readLaunch,
  readOrigin,
  readPid,
  readSecret,
  writeExit,
  writeIdentity,
} from "./instance-folder.ts";
import { hasOomKilled, membersOf } from "./memory-cgroup.ts";
import { hasEnvironment, heldBytes, identify, isAlive, type ProcessIdentity, sendSignal } from "./process-identity.ts";

/** A launch without a process after this time is treated as failed. */
const launchLimitMs = 5_000;
/** Maximum wait for the processes that it left behind, before its end is reported. */
const survivorsLimitMs = 2_000;

export class RuntimeProcess {
  readonly launch: Launch;
  readonly folder: InstanceFolder;
  readonly #secret: BearerSecret | undefined;
  #identity: ProcessIdentity | undefined;
  #isChild = false;
  #origin: string | undefined;
  #exit: Exit | undefined;
  #isOverLimit = false;
  #ending: Promise<void> | undefined;

  constructor(folder: InstanceFolder, launch: Launch, identity: ProcessIdentity | undefined, exit: Exit | undefined) {
    this.folder = folder;
    this.launch = launch;
    this.#secret = readSecret(folder);
    this.#identity = identity;
    this.#exit = exit;
  }

  /** State that an earlier agent left in the folder. */
  static adopt(folder: InstanceFolder): RuntimeProcess | undefined {
    const record = readLaunch(folder);
    if (!record) return undefined;
    const { pid, startedAt, ...launch } = record;
    const identity = pid !== undefined && startedAt !== undefined ? { pid, startedAt } : undefined;
    return new RuntimeProcess(folder, launch, identity, readExit(folder));
  }

  static started(folder: InstanceFolder, launch: Launch, child: ChildProcess, onEnd: () => void): RuntimeProcess {
    const identity = child.pid === undefined ? undefined : identify(child.pid);
    const one = new RuntimeProcess(folder, launch, identity, undefined);
    if (identity) writeIdentity(folder, launch, identity);
    one.#isChild = true;
    child.once("exit", (code, signal) => {
      void one.#end(code ?? undefined, signal ?? undefined).then(onEnd);
    });
    child.once("error", () => {
      if (child.pid !== undefined) return;
      void one.#end(undefined, undefined).then(onEnd);
    });
    return one;
  }

  get isEnded(): boolean {
    return this.#exit !== undefined;
  }

  /** The process is gone; what it left behind is being ended. Undefined while it lives. */
  get ending(): Promise<void> | undefined {
    return this.#ending;
  }

  get pid(): number | undefined {
    return this.#identity?.pid;
  }

  /** Looks at the process; true when something changed since the last look. */
  look(nowMs: number): boolean {
    if (this.#exit || this.#ending) return false;
    const before = this.#origin;
    this.#identity ??= this.#findIdentity();
    if (!this.#identity) {
      if (this.#isChild || nowMs - this.launch.launchedAtMs < launchLimitMs) return false;
      void this.#end(undefined, undefined);
      return true;
    }
    if (!isAlive(this.#identity)) {
      // The exit event of our own child reports its exit code.
      if (this.#isChild) return false;
      void this.#end(undefined, this.#isOverLimit ? "SIGKILL" : undefined);
      return true;
    }
    this.#origin ??= readOrigin(this.folder, this.#identity.pid, this.launch.instanceId, this.launch.port);
    return this.#origin !== before;
  }

  /** Ends the process when it holds more than it was granted. True when it did. */
  enforceMemory(): boolean {
    const ceiling = memoryCeiling(this.launch.memoryBytes);
    // The kernel enforces the limit exactly.
    if (this.launch.cgroup !== undefined) return false;
    if (this.#exit || !this.#identity || ceiling === undefined || this.#isOverLimit) return false;
    const held = heldBytes(this.#identity.pid);
    if (held === undefined || held <= ceiling) return false;
    this.#isOverLimit = true;
    return this.signal("SIGKILL");
  }

  /** SIGKILL reaches its whole process group: children of an engine outlive their parent otherwise. */
  signal(signal: NodeJS.Signals): boolean {
    if (this.#exit !== undefined || this.#identity === undefined) return false;
    return sendSignal(this.#identity, signal, { toGroup: signal === "SIGKILL" });
  }

  observed(): Observed {
    const { instanceId, deployId, generation, claimedGpus = [] } = this.launch;
    const named = { instanceId, deployId, generation, claimedGpus, identity: this.#nameOfIdentity() };
    if (this.#exit) return { ...named, state: "exited", ...this.#exit };
    if (!this.#identity || !this.#origin) return { ...named, state: "starting" };
    const { launchedAtMs: startedAtMs } = this.launch;
    return { ...named, state: "running", origin: this.#origin, secret: this.#secret, startedAtMs };
  }

  #nameOfIdentity(): string {
    return this.#identity ? `${this.#identity.pid}@${this.#identity.startedAt}` : `launch:${this.launch.launchId}`;
  }

  /** The agent was killed between the start and its record: the child's own note names the pid, its environment proves it. */
  #findIdentity(): ProcessIdentity | undefined {
    const pid = readPid(this.folder);
    if (pid === undefined) return undefined;
    const isOurs =
      hasEnvironment(pid, launchVariable, this.launch.launchId) ??
      readOrigin(this.folder, pid, this.launch.instanceId) !== undefined;
    const identity = isOurs ? identify(pid) : undefined;
    if (identity) writeIdentity(this.folder, this.launch, identity);
    return identity;
  }

  #end(exitCode: number | undefined, signal: string | undefined): Promise<void> {
    this.#ending ??= this.#exit ? Promise.resolve() : this.#settle(exitCode, signal);
    return this.#ending;
  }

  /** Ended only once nothing of it is left: an agent that dies in the meantime leaves no exit record, so the next one checks again. */
  async #settle(exitCode: number | undefined, signal: string | undefined): Promise<void> {
    const { cgroup, launchId } = this.launch;
    const finishedAtMs = Date.now();
    const hasOom = cgroup !== undefined && hasOomKilled(cgroup);
    if (this.#identity) {
      const swept = endSurvivors(this.#identity.pid, launchId, cgroup);
      await Promise.race([swept, wait(survivorsLimitMs, undefined, { ref: false })]);
    }
    this.#exit = { exitCode, signal, oomKilled: this.#isOverLimit || hasOom, finishedAtMs };
    try {
      writeExit(this.folder, this.#exit);
    } catch {
      // The folder may be gone already; keep what is in memory.
    }
  }
}

// A process has no memory limit, so its usage is polled. It can overshoot between two polls, so this driver is for development.

const marginBytes = 64 * 1024 * 1024;

/** Slightly above the grant, because the poll cannot stop an allocation at the limit. Undefined: no limit. */
function memoryCeiling(grantedBytes: number): number | undefined {
  return grantedBytes > 0 ? Math.max(grantedBytes + marginBytes, grantedBytes * 1.1) : undefined;
}

/** Ends them. A process that forks faster than it is killed is met by the second round. */
async function endSurvivors(leader: number, launchId: string, group: string | undefined): Promise<void> {
  if (process.platform !== "linux") kill(-leader);
  for (let round = 0; round < 2; round++) {
    const left = group ? membersOf(group) : await leftBehind(leader, launchId);
    for (const pid of left) kill(pid);
    if (left.length === 0) return;
  }
}

/**
 * Processes of the leader's session, and those that were started with its launch id. A process that changes its title overwrites
 * its environment, and one that opens a session leaves the leader's.
 */
async function leftBehind(leader: number, launchId: string): Promise<readonly number[]> {
  const mark = `${launchVariable}=${launchId}`;
  // A process that has the leader's pid now is a stranger, and so is its session.
  const hasSession = identify(leader) === undefined;
  const found: number[] = [];
  // Reads every process of the host: not on the thread that streams answers.
  for (const pid of await processes()) {
    const [environment, stat] = await Promise.all(
      ["environ", "stat"].map((name) => readFile(`/proc/${pid}/${name}`, "utf8").catch(() => "")),
    );
    if (environment?.split("\0").includes(mark) || (hasSession && sessionIn(stat ?? "") === leader)) found.push(pid);
  }
  return found;
}

/** Session of a process that lives; the fields after the name in parentheses are state (0) and session (3). */
function sessionIn(stat: string): number | undefined {
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return fields[0] === "Z" || fields[0] === "X" ? undefined : Number(fields[3]);
}

async function processes(): Promise<readonly number[]> {
  const names = await readdir("/proc").catch(() => []);
  return names.map(Number).filter((pid) => Number.isInteger(pid) && pid > 1 && pid !== process.pid);
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // Gone already.
  }
}

const launchVariable = "STOKER_LAUNCH_ID";

// The shell writes its own pid and becomes the runtime, so that no unrecorded process runs, whenever the agent is killed.
// It joins its control group before that, so that the limit always applies.
const script = 'printf "%s\\n" "$$" > "$0" && { [ -z "$1" ] || echo "$$" > "$1/cgroup.procs"; } && shift && exec "$@"';
const inherited = [
  ...["PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "NODE_EXTRA_CA_CERTS"],
  // A quarter of the runtime's start is the compilation of its modules.
  "NODE_COMPILE_CACHE",
];

/**
 * Starts the runtime, or the plan's program, so that it outlives the agent: own session, output to a file (a pipe whose reader
 * died would kill it), a small environment without the agent's secrets.
 */
export function spawnRuntime(
  plan: ContainerPlan,
  entry: string,
  { launchId, cgroup, port }: Pick<Launch, "launchId" | "cgroup" | "port">,
  folder: InstanceFolder,
): ChildProcess {
  const log = openSync(folder.log, "a", 0o600);
  try {
    const { program } = plan;
    const words = program
      ? [...program.argv, program.portFlag, String(port)]
      : [process.execPath, "--disable-warning=ExperimentalWarning", entry, ...plan.args];
    const child = spawn("/bin/sh", ["-c", script, folder.pidFile, cgroup ?? "", ...words], {
      cwd: folder.path,
      detached: true,
      stdio: ["ignore", log, log],
      env: {
        ...Object.fromEntries(inherited.flatMap((name) => (process.env[name] ? [[name, process.env[name]]] : []))),
        ...plan.env,
        STOKER_ADDRESS_FILE: folder.addressFile,
        STOKER_SECRET_FILE: folder.secretFile,
        ...(program ? { [program.secretVariable]: readFileSync(folder.secretFile, "utf8") } : {}),
        [launchVariable]: launchId,
      },
    });
    child.unref();
    return child;
  } finally {
    closeSync(log);
  }
}
