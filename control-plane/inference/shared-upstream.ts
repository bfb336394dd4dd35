// The gateway's end of a shared connection: one stream per request, answers handed on by callbacks.
import { request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import type { Duplex } from "node:stream";
import { FrameSocket, frameKind, maxPayload, sharedPath, sharedProtocol, withFields } from "../../proto/frames.ts";
import { onceExpired, type PeerOptions } from "../../proto/peer-tls.ts";
import { SharedCall } from "./shared-call.ts";
import type { UpstreamListener, UpstreamRequest } from "./upstream-call.ts";

/** The agent answers, but knows no shared connections. */
export class NotShared extends Error {
  override readonly name = "NotShared";
}

export interface SharedConnection {
  /** It takes nothing more: it has ended, or will with what runs on it. */
  readonly isOver: boolean;
  send(request: UpstreamRequest, listener: UpstreamListener): void;
  /** Breaks what runs. */
  close(): void;
}

export interface SharedLife {
  /** How long what runs may outlive the certificates that opened the connection. */
  readonly expiredEndMs: number;
  /** Once: it takes nothing more. Another one is needed for the next request. */
  readonly over: (connection: SharedConnection) => void;
  /** Once, after that: it has ended. */
  readonly gone: (connection: SharedConnection) => void;
}

/** Rejects with NotShared, or with what kept it from connecting. */
export function connectShared(
  origin: string,
  tls: PeerOptions,
  signal: AbortSignal,
  life: SharedLife,
): Promise<SharedConnection> {
  const url = new URL(sharedPath, origin);
  const ask = url.protocol === "https:" ? httpsRequest : httpRequest;
  return new Promise((resolve, reject) => {
    const headers = { connection: "upgrade", upgrade: sharedProtocol };
    const asking = ask(url, { ...tls, headers, signal, agent: false });
    asking.once("upgrade", (_answer, socket, first) => {
      socket.setNoDelay(true);
      resolve(shareConnection(socket, first, life));
    });
    asking.once("response", (answer) => {
      answer.resume();
      const why = `the agent answered ${answer.statusCode}`;
      // One that is stopping would take no other request either.
      reject(answer.statusCode === 503 ? new Error(why) : new NotShared(why));
    });
    asking.once("error", reject);
    asking.end();
  });
}

/** Bodies waiting for an agent that does not read; beyond it another instance is the better choice. */
const maxWaitingBytes = 256 * 1024 * 1024;

/** A request on its way out. */
interface Outgoing {
  readonly stream: number;
  readonly call: SharedCall;
  readonly request: UpstreamRequest;
  readonly listener: UpstreamListener;
  /** Bytes of the body that have left. */
  sent: number;
}

function shareConnection(socket: Duplex, first: Buffer, life: SharedLife): SharedConnection {
  const calls = new Map<number, SharedCall>();
  /** In turn, a piece each: one large body does not hold up the others. */
  const outgoing = new Set<Outgoing>();
  let waitingBytes = 0;
  let isFull = false;
  let lastStream = 0;
  let isOver = false;
  const frames = new FrameSocket(socket, first, {
    frame(kind, stream, payload) {
      // A frame of a request that was aborted is late, not wrong.
      calls.get(stream)?.take(kind, payload);
    },
    drained() {
      isFull = false;
      pump();
    },
    closed(error) {
      const open = [...calls.values()];
      calls.clear();
      outgoing.clear();
      retire();
      life.gone(connection);
      for (const call of open) call.broke(error);
    },
  });

  function retire(): void {
    if (isOver) return;
    isOver = true;
    life.over(connection);
    endIfIdle();
  }

  function endIfIdle(): void {
    if (isOver && calls.size === 0) frames.close(new Error("a certificate of the connection has expired"));
  }

  function pump(): void {
    while (!isFull && outgoing.size > 0) {
      for (const one of outgoing) {
        if (isFull) return;
        if (one.call.isOver || sendPiece(one)) leave(one);
      }
    }
  }

  function leave(one: Outgoing): void {
    if (outgoing.delete(one)) waitingBytes -= one.request.body.length;
  }

  /** True when nothing of it is left to send. */
  function sendPiece(one: Outgoing): boolean {
    const { stream, call, request, listener } = one;
    const { body } = request;
    const piece = body.subarray(one.sent, one.sent + maxPayload);
    const isFirst = one.sent === 0;
    one.sent += piece.length;
    const isLast = one.sent === body.length;
    if (isFirst) {
      listener.onRequestStart(call);
      if (call.isOver) return true;
      const fields = withFields([request.path, request.contentType ?? "application/json", request.ticket], piece);
      isFull = !frames.send(isLast ? frameKind.wholeRequest : frameKind.request, stream, fields);
      return isLast;
    }
    isFull = !frames.send(frameKind.data, stream, piece);
    if (isLast) frames.send(frameKind.end, stream);
    return isLast;
  }

  const connection: SharedConnection = {
    get isOver() {
      return isOver;
    },
    send(request, listener) {
      // The counter has room for years; a connection that reaches its end makes way for the next.
      if (lastStream === 0xffff_ffff) frames.close(new Error("the connection has no stream numbers left"));
      if (frames.isClosed)
        return listener.onResponseError(undefined, new Error("the connection to the agent was lost"));
      if (waitingBytes + request.body.length > maxWaitingBytes)
        return listener.onResponseError(undefined, new Error("too much is waiting for this agent"));
      const stream = ++lastStream;
      const call = new SharedCall(frames, stream, listener, () => {
        calls.delete(stream);
        endIfIdle();
      });
      calls.set(stream, call);
      const one = { stream, call, request, listener, sent: 0 };
      if (!isFull && outgoing.size === 0 && sendPiece(one)) return;
      outgoing.add(one);
      waitingBytes += request.body.length;
      pump();
    },
    close: () => frames.close(new Error("the control plane is shutting down")),
  };
  onceExpired(socket, 0, retire);
  onceExpired(socket, life.expiredEndMs, () =>
    frames.close(new Error("what ran on the connection outlived its certificate for too long")),
  );
  return connection;
}
