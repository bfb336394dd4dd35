import { Group, Progress, Text } from "@mantine/core";
import { type ReactNode, useRef } from "react";
import { type Deployment, isStarting, progressText } from "../../domain/deployment.ts";
import { text } from "../../text/deployments.ts";
import { duration } from "../../ui/format.ts";

/** Less than this is too little for an estimate. */
const leastMs = 2000;

/** Bytes of the download, and how long the rest will take at the speed since this page was opened. */
export function StartProgress({ one }: { one: Deployment }): ReactNode {
  const words = progressText(one);
  const { done_bytes: done = 0, total_bytes: total = 0 } = one.progress ?? {};
  const left = useTimeLeft(done, total);
  if (!isStarting(one.status) || words === "") return null;
  return (
    <div>
      <Group justify="space-between" mb={4} gap="xs">
        <Text size="sm">{words}</Text>
        {left !== undefined && (
          <Text size="sm" c="dimmed">
            {text.detail.eta(duration(left))}
          </Text>
        )}
      </Group>
      {total > 0 && <Progress value={(100 * done) / total} aria-label={words} />}
    </div>
  );
}

function useTimeLeft(done: number, total: number): number | undefined {
  const first = useRef<{ readonly atMs: number; readonly done: number; readonly total: number }>(undefined);
  const nowMs = Date.now();
  // Another download, or it began again.
  if (!first.current || first.current.total !== total || done < first.current.done)
    first.current = { atMs: nowMs, done, total };
  const passed = nowMs - first.current.atMs;
  const loaded = done - first.current.done;
  return passed < leastMs || loaded <= 0 ? undefined : Math.round(((total - done) / loaded) * passed);
}
