// A terminal in the page, joined to the shell of a container by a WebSocket. Loaded only when one is opened.
import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";
import { type ReactNode, useEffect, useRef } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useApi } from "../../api/context.ts";
import { styleNonce } from "../../app/visitor.ts";
import { text as all } from "../../text/rentals.ts";

type Ticket = Responses["POST /v1/containers/{container_id}/terminal"];

const text = all.terminal;
const maxMessageBytes = 32 * 1024;

/** The page's policy admits styles with its nonce only; the library makes its own without one while it opens. */
function withStyleNonce(open: () => void): void {
  const create = document.createElement.bind(document);
  document.createElement = (tag: string, options?: ElementCreationOptions) => {
    const element = create(tag, options);
    if (element instanceof HTMLStyleElement) element.nonce = styleNonce();
    return element;
  };
  try {
    open();
  } finally {
    // The prototype's is there again.
    Reflect.deleteProperty(document, "createElement");
  }
}

interface TerminalViewProps {
  /** Path of the container or agent instance in the API. */
  readonly path: string;
  /** Why it ended: an exit code in words, or an error. */
  readonly onEnd: (why: string) => void;
  /** The key for leaving the terminal was pressed. */
  readonly onLeave: () => void;
}

export default function TerminalView({ path, onEnd, onLeave }: TerminalViewProps): ReactNode {
  const box = useRef<HTMLDivElement>(null);
  const api = useApi();
  const events = useRef({ onEnd, onLeave });
  events.current = { onEnd, onLeave };
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const terminal = new Terminal({
      cursorBlink: true,
      scrollback: 5_000,
      screenReaderMode: true,
      theme: { background: "#141517", foreground: "#e9ecef" },
    });
    const fit = new FitAddon();
    terminal.loadAddon(fit);
    withStyleNonce(() => terminal.open(element));
    fit.fit();
    terminal.focus();
    terminal.attachCustomKeyEventHandler(({ key, type }) => {
      if (key !== "F6") return true;
      if (type === "keydown") events.current.onLeave();
      return false;
    });
    const resized = new ResizeObserver(() => fit.fit());
    resized.observe(element);
    const gone = new AbortController();
    void connect(terminal, () => api.call<Ticket>("POST", `${path}/terminal`), gone.signal)
      .catch((error: unknown) => (error as Error).message)
      .then((why) => gone.signal.aborted || events.current.onEnd(why));
    return () => {
      gone.abort();
      resized.disconnect();
      terminal.dispose();
    };
  }, [api, path]);
  return <div ref={box} className="shell" />;
}

/** Resolves with the reason of the end. Rejects when there is no ticket. */
async function connect(terminal: Terminal, ticketOf: () => Promise<Ticket>, gone: AbortSignal): Promise<string> {
  const { path, ticket } = await ticketOf();
  // The page was left in the meantime.
  gone.throwIfAborted();
  const { cols, rows } = terminal;
  const url = new URL(`${path}?columns=${cols}&rows=${rows}`, location.href);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  const socket = new WebSocket(url, ["stoker-terminal", `ticket.${ticket}`]);
  socket.binaryType = "arraybuffer";
  gone.addEventListener("abort", () => socket.close());
  const send = (message: object | Uint8Array<ArrayBuffer>): void => {
    if (socket.readyState !== WebSocket.OPEN) return;
    socket.send(message instanceof Uint8Array ? message : JSON.stringify(message));
  };
  terminal.onData((typed) => {
    const bytes = new TextEncoder().encode(typed);
    for (let at = 0; at < bytes.length; at += maxMessageBytes) send(bytes.subarray(at, at + maxMessageBytes));
  });
  terminal.onBinary((typed) => send(Uint8Array.from(typed, (one) => one.charCodeAt(0))));
  terminal.onResize(({ cols: columns, rows: lines }) => send({ type: "resize", columns, rows: lines }));
  return new Promise((resolve) => {
    let why: string = text.lost;
    socket.onmessage = ({ data }) => {
      if (data instanceof ArrayBuffer) {
        // The server waits for this, so that a program cannot print faster than the page shows.
        terminal.write(new Uint8Array(data), () => send({ type: "read", bytes: data.byteLength }));
        return;
      }
      const message = JSON.parse(String(data)) as { type: string; code: unknown; message?: string };
      why = message.type === "exit" ? text.exited(message.code as number | null) : (message.message ?? text.lost);
    };
    socket.onclose = () => resolve(why);
  });
}
