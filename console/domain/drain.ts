// A drain before it begins and while it runs, and what the command line would be.
import type { Responses } from "../../proto/gen/responses.ts";
import { inShell } from "./literals.ts";

export type DrainPreview = Responses["GET /v1/admin/nodes/{id}/drain-preview"];
export type DrainedInstance = DrainPreview["instances"][number];
export type Outcome = DrainedInstance["outcome"];
export type DrainProgress = Responses["GET /v1/admin/nodes/{id}/drain"];

/** The most urgent first. */
export const outcomes: readonly Outcome[] = ["waits", "stays", "moves", "stops"];

export interface DrainForm {
  readonly minutes: string;
  readonly isForced: boolean;
  readonly note: string;
}

/** Body of the request; undefined: the minutes are no number from 0 to a week. */
export function drainBody({ minutes, isForced, note }: DrainForm): object | undefined {
  const reason = note.trim() === "" ? {} : { note: note.trim() };
  if (isForced) return { deadline_seconds: 0, ...reason };
  if (minutes.trim() === "") return reason;
  const seconds = Math.round(Number(minutes) * 60);
  return seconds >= 0 && seconds <= 604_800 ? { deadline_seconds: seconds, ...reason } : undefined;
}

export function drainCommand(node: string, { minutes, isForced, note }: DrainForm): string {
  const deadline = isForced ? " --force" : minutes.trim() === "" ? "" : ` --deadline ${minutes.trim()}m`;
  return nodeCommand("drain", node, `${deadline}${noteOption(note)}`);
}

/** A name that a shell would change is quoted. */
export const nodeCommand = (verb: string, node: string, options = ""): string =>
  `stoker node ${verb} ${shellWord(node)}${options}`;

export const noteOption = (note: string): string => (note.trim() === "" ? "" : ` --note ${shellWord(note.trim())}`);

const shellWord = (word: string): string => (/^[\w.,:/@-]+$/.test(word) ? word : inShell(word));

export interface PreviewCounts {
  readonly all: number;
  readonly byOutcome: Readonly<Record<Outcome, number>>;
  /** Requests of instances that would end without a replacement. */
  readonly cutRequests: number;
  /** Deployments that would have no serving instance. */
  readonly outages: readonly string[];
}

/** `isForced`: nothing is replaced before it stops. */
export function countsOf({ instances }: DrainPreview, isForced: boolean): PreviewCounts {
  const count = (outcome: Outcome) => instances.filter((one) => one.outcome === outcome).length;
  const ending = instances.filter(({ outcome }) => outcome === "waits" || (isForced && outcome !== "stays"));
  const outages = ending.filter((one) => one.serving_elsewhere === 0).map((one) => one.deploy_name);
  return {
    all: instances.length,
    byOutcome: { moves: count("moves"), waits: count("waits"), stays: count("stays"), stops: count("stops") },
    cutRequests: ending.reduce((sum, one) => sum + one.in_flight, 0),
    outages: [...new Set(outages)],
  };
}
