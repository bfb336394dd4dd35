// Starts the runtime so that it outlives the agent: own session, output to a file (a pipe whose reader died would kill
// it), a small environment without the agent's secrets.
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import type { ContainerPlan } from "../reconcile/driver.ts";
import type { InstanceFolder, Launch } from "./instance-folder.ts";

export const launchVariable = "STOKER_LAUNCH_ID";

// The shell writes its own pid and becomes the runtime, so that no unrecorded process runs, whenever the agent is killed.
// It joins its control group before that, so that the limit always applies.
const script = 'printf "%s\\n" "$$" > "$0" && { [ -z "$1" ] || echo "$$" > "$1/cgroup.procs"; } && shift && exec "$@"';
const inherited = ["PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "NODE_EXTRA_CA_CERTS"];

export function spawnRuntime(
  plan: ContainerPlan,
  entry: string,
  { launchId, cgroup }: Pick<Launch, "launchId" | "cgroup">,
  folder: InstanceFolder,
): ChildProcess {
  const log = openSync(folder.log, "a", 0o600);
  try {
    const node = [process.execPath, "--disable-warning=ExperimentalWarning", entry];
    const child = spawn("/bin/sh", ["-c", script, folder.pidFile, cgroup ?? "", ...node, ...plan.args], {
      cwd: folder.path,
      detached: true,
      stdio: ["ignore", log, log],
      env: {
        ...Object.fromEntries(inherited.flatMap((name) => (process.env[name] ? [[name, process.env[name]]] : []))),
        ...plan.env,
        STOKER_ADDRESS_FILE: folder.addressFile,
        STOKER_SECRET_FILE: folder.secretFile,
        [launchVariable]: launchId,
      },
    });
    child.unref();
    return child;
  } finally {
    closeSync(log);
  }
}
