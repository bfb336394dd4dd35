// The gateway's end of a shared connection: one stream per request, responses passed on by callbacks.
import { request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import type { Duplex } from "node:stream";
import { FrameSocket, frameKind, maxPayload, sharedPath, sharedProtocol, withFields } from "../../proto/frames.ts";
import { onceExpired, type PeerOptions } from "../../proto/peer-tls.ts";
import { SharedCall } from "./shared-call.ts";
import type { UpstreamListener, UpstreamRequest } from "./upstream-call.ts";

/** The agent responds, but does not support shared connections. */
export class NotShared extends Error {
  override readonly name = "NotShared";
}

export interface SharedConnection {
  /** It accepts no more requests: it has ended, or will end with the running ones. */
  readonly isOver: boolean;
  send(request: UpstreamRequest, listener: UpstreamListener): void;
  /** Breaks running requests. */
  close(): void;
}

export interface SharedLife {
  /** Time for which requests may outlive the certificates of the connection. */
  readonly expiredEndMs: number;
  /** Called once, when it accepts no more requests. The next request needs another connection. */
  readonly over: (connection: SharedConnection) => void;
  /** Called once after that, when it has ended. */
  readonly gone: (connection: SharedConnection) => void;
}

/** Rejects with NotShared, or with the error of the connection. */
export function connectShared(
  origin: string,
  tls: PeerOptions,
  signal: AbortSignal,
  life: SharedLife,
): Promise<SharedConnection> {
  const url = new URL(sharedPath, origin);
  const request = url.protocol === "https:" ? httpsRequest : httpRequest;
  return new Promise((resolve, reject) => {
    const headers = { connection: "upgrade", upgrade: sharedProtocol };
    const connecting = request(url, { ...tls, headers, signal, agent: false });
    connecting.once("upgrade", (_answer, socket, first) => {
      socket.setNoDelay(true);
      resolve(shareConnection(socket, first, life));
    });
    connecting.once("response", (answer) => {
      answer.resume();
      const why = `the agent responded with ${answer.statusCode}`;
      // 503: it is stopping, and would refuse plain HTTP too.
      reject(answer.statusCode === 503 ? new Error(why) : new NotShared(why));
    });
    connecting.once("error", reject);
    connecting.end();
  });
}

/** Maximum size of bodies that wait for one agent; above it another instance is the better choice. */
const maxWaitingBytes = 256 * 1024 * 1024;

/** A request that is being sent. */
interface Outgoing {
  readonly stream: number;
  readonly call: SharedCall;
  readonly request: UpstreamRequest;
  readonly listener: UpstreamListener;
  /** Bytes of the body that were sent. */
  sent: number;
}

function shareConnection(socket: Duplex, first: Buffer, life: SharedLife): SharedConnection {
  const calls = new Map<number, SharedCall>();
  /** Sent a piece each in turn, so that one large body does not delay the others. */
  const outgoing = new Set<Outgoing>();
  let waitingBytes = 0;
  let isFull = false;
  let lastStream = 0;
  let isOver = false;
  const frames = new FrameSocket(socket, first, {
    frame(kind, stream, payload) {
      // Ignore late frames of an aborted request.
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

  /** Returns true when it was sent completely. */
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
      // The counter lasts for years.
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
    frames.close(new Error("requests on the connection outlived its certificate for too long")),
  );
  return connection;
}
