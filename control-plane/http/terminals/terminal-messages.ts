// Messages between a client and its terminal over a WebSocket: binary ones are what is typed and what is printed, text ones are
// JSON.
import { sizeOf, type TerminalSize } from "../../../proto/terminal-tunnel.ts";
import type { ServiceError } from "../../service-error.ts";

export type ClientMessage =
  | { readonly type: "resize"; readonly size: TerminalSize }
  /** Bytes of output that the client has processed. */
  | { readonly type: "read"; readonly bytes: number };

/** Undefined: invalid. */
export function readMessage(text: string): ClientMessage | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  const { type, columns, rows, bytes } = (value ?? {}) as Readonly<Record<string, unknown>>;
  if (type === "read")
    return Number.isSafeInteger(bytes) && (bytes as number) > 0 ? { type, bytes: bytes as number } : undefined;
  const size = type === "resize" ? sizeOf(columns, rows) : undefined;
  return size && { type: "resize", size };
}

export const exitMessage = (code: number | null): string => JSON.stringify({ type: "exit", code });

export const errorMessage = ({ code, message }: ServiceError): string =>
  JSON.stringify({ type: "error", code, message });
