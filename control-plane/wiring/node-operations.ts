import type { HostOperations } from "../fleet/host-operations.ts";
import { answering } from "./answering.ts";

export function answeringOperations(operations: HostOperations): HostOperations {
  return {
    cordon: (node, act) => answering(() => operations.cordon(node, act)),
    end: (node, act) => answering(() => operations.end(node, act)),
    drain: (node, deadlineMs, act) => answering(() => operations.drain(node, deadlineMs, act)),
    progress: (node) => answering(() => operations.progress(node)),
    remove: (node, act) => answering(() => operations.remove(node, act)),
    endUnknown: (node, only, act) => answering(() => operations.endUnknown(node, only, act)),
    rebalance: () => answering(() => operations.rebalance()),
  };
}
