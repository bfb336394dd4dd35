// Proves that this agent created a Pod: others with rights to Pods of the namespace can give theirs our labels, or another image to ours.
import type { V1Pod } from "@kubernetes/client-node";
import { ownedOf } from "./pod-labels.ts";

/** Encrypts and authenticates with a key that never leaves this host. */
export interface Seal {
  seal(text: string): string;
  /** Throws for what it did not seal. */
  open(sealed: string): string;
}

const annotation = "stoker.seal";

/** Patch that seals a Pod as it was created. */
export const sealingPatch = (seal: Seal, pod: V1Pod) => [
  { op: "test", path: "/metadata/uid", value: pod.metadata?.uid },
  { op: "add", path: `/metadata/annotations/${annotation}`, value: seal.seal(contentOf(pod)) },
];

/** False for a Pod that another client created, or of which somebody has since changed an image or a fact in the annotations. */
export function isSealed(seal: Seal, pod: V1Pod): boolean {
  try {
    return seal.open(pod.metadata?.annotations?.[annotation] ?? "") === contentOf(pod);
  } catch {
    return false;
  }
}

/** The cluster gives each Pod a uid of its own and lets nobody change other parts of a container. */
const contentOf = ({ metadata, spec }: V1Pod) =>
  JSON.stringify([
    metadata?.uid,
    ownedOf(metadata),
    [...(spec?.initContainers ?? []), ...(spec?.containers ?? [])].map(({ name, image }) => [name, image]),
  ]);
