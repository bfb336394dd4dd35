import {
  conflict,
  forbidden,
  notFound,
  rateLimited,
  ServiceError,
  unauthenticated,
  unavailable,
} from "../service-error.ts";
import type { TerminalKind } from "./store.ts";

const names: Readonly<Record<TerminalKind, string>> = { container: "container", agent_instance: "agent instance" };

export const terminalSubjectNotFound = (kind: TerminalKind) =>
  kind === "container"
    ? notFound("container_not_found", "Container not found. `GET /v1/containers` lists yours.")
    : notFound("agent_not_found", "Agent instance not found. `GET /v1/agent` lists yours.");

/** `status`: of the deployment that carries it. */
export const notRunning = (kind: TerminalKind, status: string) =>
  conflict("wrong_state", `The ${names[kind]} must be running to open a terminal; it is ${status}.`);

export const terminalNotAllowed = () =>
  forbidden(
    "terminal_not_allowed",
    "The operator of this host does not allow terminals. Use SSH if the container has it, or ask your operator.",
  );

export const terminalTicketInvalid = () =>
  unauthenticated(
    "terminal_ticket_invalid",
    "The ticket is unknown, was used already or is older than 30 seconds. Request another one with POST .../terminal.",
  );

export const terminalLimitReached = (message: string) =>
  rateLimited("terminal_limit_reached", message, { retryAfterSeconds: 5 });

export const tooManyTerminals = (max: number) =>
  terminalLimitReached(`Your account has ${max} terminals open, which is the maximum. Close one.`);

export const hostHasTooManyTerminals = () =>
  terminalLimitReached("The host of this container has too many terminals open. Close one, or try again later.");

export const terminalHostUnavailable = (cause?: unknown) =>
  unavailable(
    "terminal_host_unavailable",
    "The connection to the host of this container failed or ended. Its agent may be restarting: try again in a few seconds.",
    { cause, retryAfterSeconds: 5 },
  );

export const terminalNoShell = () =>
  new ServiceError(
    "upstream_failed",
    "terminal_no_shell",
    "No shell could be started. The image must contain /bin/sh; a new container may still be creating its user.",
  );

/** The terminal ended because its limit of time was reached. */
export const terminalExpired = (message: string) => new ServiceError("request_timeout", "terminal_expired", message);

/** The credential, the account or the container ended. */
export const terminalClosed = () =>
  forbidden(
    "terminal_closed",
    "The terminal was closed: its key was revoked, its session signed out, or the container was stopped or deleted.",
  );

/** The database has been unavailable for too long to tell whether the terminal may go on. */
export const terminalUnchecked = () =>
  unavailable(
    "terminal_unchecked",
    "The terminal was closed because its key or session could not be checked for a minute. Try again in a few seconds.",
    { retryAfterSeconds: 5 },
  );
