// Shells in containers, as processes that the engine starts with a terminal. The engine leaves such a process running when its
// connection closes, and its id in the container is known only there: the shell prints it first, and a second process ends it.
import type { Duplex } from "node:stream";
import { setTimeout as wait } from "node:timers/promises";
import type Docker from "dockerode";
import type { TerminalSize } from "../../proto/terminal-tunnel.ts";
import { DriverError, type Shell } from "../reconcile/driver.ts";
import type { EngineClient } from "./engine-client.ts";
import { saidBy } from "./engine-fault.ts";

/** A container, and the user in it; undefined: the image's own. */
export interface ShellPlace {
  readonly container: string;
  readonly user?: string | undefined;
}

/** The two variables are input of a rental's first process. STOKER_TERMINAL marks the leader of the shell's session. */
const opening = `
unset STOKER_SSH_KEYS STOKER_FIRST_START
export STOKER_TERMINAL=$$
printf '%s\\n' $$
cd "\${HOME:-/}" 2>/dev/null || cd /
for shell in /bin/bash /usr/bin/bash; do [ ! -x "$shell" ] || exec "$shell" -l; done
exec /bin/sh -l
`;

/** Ends all processes of a session: what must survive starts a session of its own (setsid, tmux). */
const endSession = `
end_session() {
  hang_up() {
    left=
    for one in /proc/[0-9]*/stat; do
      { read -r line <"$one"; } 2>/dev/null || continue
      pid=\${line%% *}
      set -- $leader \${line##*) }
      [ "\${5:-}" = "$1" ] || continue
      left=1
      kill "-$signal" "$pid" 2>/dev/null
      [ "$signal" != HUP ] || kill -CONT "$pid" 2>/dev/null
    done
  }
  leader=$1
  signal=HUP
  hang_up
  signal=0
  for _ in 1 2 3 4 5 6 7 8 9 10; do
    hang_up
    [ -n "$left" ] || return 0
    sleep 0.2
  done
  signal=KILL
  hang_up
}
`;
const endOne = `${endSession}end_session "$1"`;
/** Sessions whose agent ended before them. */
const endAll = `${endSession}
for folder in /proc/[0-9]*; do
  leader=\${folder#/proc/}
  if tr '\\0' '\\n' <"$folder/environ" 2>/dev/null | grep -qx "STOKER_TERMINAL=$leader"; then end_session "$leader"; fi
done
`;

/** The engine's own keys for leaving a shell are ones that people use: Ctrl-P and Ctrl-Q. It cannot be without any. */
const detachKeys = Array(8).fill("ctrl-^").join(",");
const firstLineMs = 10_000;
const maxFirstLine = 200;
const endMs = 15_000;
/** A container that is frozen for a backup ends its shells afterwards. */
const endTries = 40;
const endPauseMs = 3_000;

/** Throws DriverError. */
export async function openShell(
  client: EngineClient,
  place: ShellPlace,
  size: TerminalSize,
  signal: AbortSignal,
): Promise<Shell> {
  const env = ["TERM=xterm-256color"];
  const [exec, stream] = await client.call(signal, async (docker, bound) => {
    const made = await docker.getContainer(place.container).exec({
      Cmd: ["/bin/sh", "-c", opening],
      ...(place.user === undefined ? {} : { User: place.user }),
      Env: env,
      DetachKeys: detachKeys,
      Tty: true,
      AttachStdin: true,
      AttachStdout: true,
      AttachStderr: true,
      abortSignal: bound,
    });
    return [made, await made.start({ hijack: true, stdin: true, Tty: true })] as const;
  });
  // The engine may reset it.
  stream.on("error", () => stream.destroy());
  const resize = async ({ columns, rows }: TerminalSize): Promise<void> => {
    await client.call(AbortSignal.timeout(endMs), () => exec.resize({ h: rows, w: columns }));
  };
  const inspect = () => client.call(AbortSignal.timeout(endMs), () => exec.inspect());
  const leader = await readLeader(stream, signal).catch((cause: unknown) => {
    stream.destroy();
    throw new DriverError("no_shell", `The image has no shell that can be started: ${(cause as Error).message}`, {
      retryable: false,
      cause,
    });
  });
  const shell: Shell = {
    stream,
    resize,
    async exitCode() {
      for (let tries = 0; tries < 20; tries++) {
        const { Running, ExitCode } = await inspect();
        if (!Running) return ExitCode;
        await wait(50);
      }
      return null;
    },
    async end() {
      for (let tries = 0; tries < endTries; tries++) {
        try {
          if (!(await inspect()).Running) break;
          await runIn(client, place, endOne, [leader], AbortSignal.timeout(endMs));
        } catch (error) {
          // Without its container it has ended as well.
          if (/no such (exec|container)|is not running/i.test(saidOf(error))) break;
          await wait(endPauseMs, undefined, { ref: false });
        }
      }
      stream.destroy();
    },
  };
  await resize(size).catch(() => {});
  return shell;
}

/** Ends the shells that an earlier agent left in this container. */
export async function endLeftShells(client: EngineClient, place: ShellPlace, signal: AbortSignal): Promise<void> {
  const info = await client.call(signal, (docker, abortSignal) =>
    docker.getContainer(place.container).inspect({ abortSignal } as object),
  );
  const { ExecIDs: running } = info as { readonly ExecIDs?: readonly string[] | null };
  if (running && running.length > 0) await runIn(client, place, endAll, [], signal);
}

/** Runs a script in the container and waits for its end. */
async function runIn(
  client: EngineClient,
  { container, user }: ShellPlace,
  script: string,
  args: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  await client.call(signal, async (docker: Docker, abortSignal) => {
    const exec = await docker.getContainer(container).exec({
      Cmd: ["/bin/sh", "-c", script, "sh", ...args],
      ...(user === undefined ? {} : { User: user }),
      AttachStdout: true,
      abortSignal,
    });
    const output = await exec.start({ hijack: true, stdin: false });
    const stop = () => output.destroy();
    abortSignal.addEventListener("abort", stop, { once: true });
    for await (const _ of output) abortSignal.throwIfAborted();
    abortSignal.removeEventListener("abort", stop);
  });
}

/** Reads the first line of the shell, its id in the container. Later bytes stay in the stream. */
async function readLeader(stream: Duplex, signal: AbortSignal): Promise<string> {
  const bound = AbortSignal.any([signal, AbortSignal.timeout(firstLineMs)]);
  const stop = () => stream.destroy(new Error("it did not start in time"));
  bound.addEventListener("abort", stop, { once: true });
  let text = Buffer.alloc(0);
  try {
    for await (const chunk of stream.iterator({ destroyOnReturn: false })) {
      text = Buffer.concat([text, chunk as Buffer]);
      const end = text.indexOf(0x0a);
      if (end < 0 && text.length <= maxFirstLine) continue;
      const line = text.subarray(0, Math.max(0, end)).toString("latin1").trim();
      if (!/^\d{1,10}$/.test(line)) break;
      if (text.length > end + 1) stream.unshift(text.subarray(end + 1));
      return line;
    }
  } finally {
    bound.removeEventListener("abort", stop);
  }
  throw new Error(text.toString("utf8").replaceAll(/\s+/g, " ").slice(0, 300) || "it ended at once");
}

const saidOf = (error: unknown): string => saidBy((error as DriverError).cause ?? error) || (error as Error).message;
