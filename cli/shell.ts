// A shell in a container or an agent instance: this terminal, or stdin and stdout, joined to a WebSocket of the server.
import { WebSocket } from "ws";
import type { Responses } from "../proto/gen/responses.ts";
import { sizeOf, usualSize } from "../proto/terminal-tunnel.ts";
import { errorCode, errorText } from "./api.ts";
import { CliError, exitCode, exitCodeOfStatus } from "./cli-error.ts";
import { withCommands } from "./command-of-path.ts";
import type { Terminal } from "./terminal.ts";

type Ticket = Responses["POST /v1/containers/{container_id}/terminal"];

/** Ctrl-] closes the connection: in raw mode every other key belongs to the shell. */
const leaveKey = 0x1d;
/** Ctrl-D: the end of input for a shell with a terminal. */
const endOfInput = Buffer.from([0x04]);
const maxMessageBytes = 32 * 1024;

/** `path`: of the container or agent instance in the API. Returns the exit code of its shell. Throws CliError. */
export async function openShell(terminal: Terminal, path: string): Promise<number> {
  const made = await terminal.api.call<Ticket>("POST", `${path}/terminal`);
  const { stdin, stdout } = process;
  const size = sizeOf(stdout.columns, stdout.rows) ?? usualSize;
  const url = new URL(`${made.path}?columns=${size.columns}&rows=${size.rows}`, terminal.connection.host);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  const ws = new WebSocket(url, ["stoker-terminal", `ticket.${made.ticket}`], { perMessageDeflate: false });
  const isInteractive = stdin.isTTY === true;
  const type = (keys: Buffer): void => {
    const end = isInteractive ? keys.indexOf(leaveKey) : -1;
    const typed = end < 0 ? keys : keys.subarray(0, end);
    // Input from a file may be larger than what the server takes at once.
    if (typed.length > 0) stdin.pause();
    for (let at = 0; at < typed.length; at += maxMessageBytes)
      ws.send(typed.subarray(at, at + maxMessageBytes), () => stdin.resume());
    if (end >= 0) ws.close();
  };
  const resize = (): void => {
    const { columns, rows } = sizeOf(stdout.columns, stdout.rows) ?? usualSize;
    ws.send(JSON.stringify({ type: "resize", columns, rows }));
  };
  try {
    await connected(ws);
    const ended = result(ws, (bytes) => {
      stdout.write(bytes, () => {
        if (ws.readyState === ws.OPEN) ws.send(JSON.stringify({ type: "read", bytes: bytes.length }));
      });
    });
    if (isInteractive) {
      stdin.setRawMode(true);
      terminal.progress("Connected. Ctrl-] closes the connection.\r");
    } else stdin.once("end", () => ws.readyState === ws.OPEN && ws.send(endOfInput));
    stdin.on("data", type);
    stdout.on("resize", resize);
    return await ended;
  } finally {
    stdin.off("data", type);
    stdout.off("resize", resize);
    if (isInteractive) stdin.setRawMode(false);
    stdin.pause();
    ws.terminate();
  }
}

function connected(ws: WebSocket): Promise<void> {
  return new Promise((resolve, reject) => {
    ws.once("open", resolve);
    ws.once("error", (cause) =>
      reject(new CliError(`Could not open the terminal: ${cause.message}`, exitCode.unavailable, { cause })),
    );
    ws.once("unexpected-response", async (_request, answer) => {
      const parts: Buffer[] = [];
      for await (const part of answer) parts.push(part as Buffer);
      const status = answer.statusCode ?? 0;
      reject(refusalOf(Buffer.concat(parts).toString(), status));
    });
  });
}

function refusalOf(text: string, status: number): CliError {
  let body: Parameters<typeof errorText>[0];
  try {
    body = JSON.parse(text);
  } catch {}
  const said = errorText(body) ?? `The server returned status ${status}. A proxy on the way may not pass WebSockets.`;
  return new CliError(withCommands(said), exitCodeOfStatus(status), { code: errorCode(body), status });
}

/** Waits for the end. `print` gets what the shell prints. */
function result(ws: WebSocket, print: (bytes: Buffer) => void): Promise<number> {
  return new Promise((resolve, reject) => {
    let failure: CliError | undefined;
    let code: number | undefined;
    ws.on("message", (data: Buffer, isBinary) => {
      if (isBinary) {
        print(data);
        return;
      }
      const message = JSON.parse(String(data)) as { type: string; code: unknown; message?: string };
      if (message.type === "exit") code = typeof message.code === "number" ? message.code : exitCode.failed;
      if (message.type === "error")
        failure = new CliError(withCommands(message.message ?? ""), exitCode.failed, { code: String(message.code) });
    });
    ws.on("error", (cause) => {
      failure ??= new CliError(`The connection failed: ${cause.message}`, exitCode.unavailable, { cause });
    });
    ws.once("close", (closeCode) => {
      if (failure) reject(failure);
      else if (code !== undefined) resolve(code);
      // Ctrl-].
      else if (closeCode === 1005) resolve(exitCode.done);
      else reject(new CliError("The connection to the server ended.", exitCode.unavailable));
    });
  });
}
