import { type ServerErrorResponse, status } from "@grpc/grpc-js";
import { AgentRefusal } from "../fleet/errors.ts";

/** Agents act on the status; the message is for their log. */
const statuses: Readonly<Record<string, status>> = {
  node_refused: status.UNAUTHENTICATED,
  // Agents stop serving on these two.
  node_banned: status.PERMISSION_DENIED,
  run_superseded: status.ALREADY_EXISTS,
  session_paused: status.UNAVAILABLE,
};

export function asRpcError(error: unknown): Pick<ServerErrorResponse, "code" | "details"> & Error {
  const known = error instanceof AgentRefusal ? statuses[error.code] : undefined;
  const details =
    known !== undefined && error instanceof Error
      ? error.message
      : "the control plane is temporarily unavailable: try again";
  return Object.assign(new Error(details), { code: known ?? status.UNAVAILABLE, details });
}
