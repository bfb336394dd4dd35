import { Alert, Progress, Text } from "@mantine/core";
import type { ReactNode } from "react";
import { useGet } from "../../api/hooks.ts";
import type { DrainProgress } from "../../domain/drain.ts";
import { text } from "../../text/fleet-host.ts";
import { Ago } from "../../ui/time.tsx";
import type { NodeDetail } from "./host.tsx";

const words = text.drain;

/** Progress of a running drain; nothing without one. */
export function DrainState({ node }: { node: NodeDetail }): ReactNode {
  const isDraining = node.operation?.kind === "drain";
  const path = `/v1/admin/nodes/${encodeURIComponent(node.node_id)}/drain`;
  const progress = useGet<DrainProgress>(path, { everyMs: 3000, enabled: isDraining });
  if (!isDraining || !progress.data) return null;
  const { total, left, fixed, in_flight: requests } = progress.data;
  const moved = total - left;
  if (left === 0)
    return (
      <Alert color="green" variant="light" role="status">
        {words.done}
      </Alert>
    );
  return (
    <Alert color="yellow" variant="light" title={words.progress(moved, total)} role="status">
      <Progress value={(100 * moved) / Math.max(1, total)} aria-label={words.progress(moved, total)} mb={6} />
      <Text size="sm">
        {words.running(requests)}
        {fixed > 0 && ` · ${words.fixed(fixed)}`}
        {node.operation?.deadline_at && (
          <>
            {` · ${words.until} `}
            <Ago at={node.operation.deadline_at} />
          </>
        )}
      </Text>
    </Alert>
  );
}
