import { Anchor, Text } from "@mantine/core";
import type { ReactNode } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useGet } from "../../api/hooks.ts";
import { matchingLines, readLines } from "../../domain/log-lines.ts";
import { text } from "../../text/deployments.ts";

const shownLines = 3;

/** The last errors in the log of a failed deployment. Nothing if there are none. */
export function FailureLog({ id, onLogs }: { id: string; onLogs: () => void }): ReactNode {
  const query = new URLSearchParams({ deploy_id: id, limit: "500" });
  const { data } = useGet<Responses["GET /v1/deployment_logs/query"]>(`/v1/deployment_logs/query?${query}`);
  const errors = data ? matchingLines(readLines(data.entries), "error", "").slice(-shownLines) : [];
  if (errors.length === 0) return null;
  return (
    <>
      <Text size="sm" fw={600} mt="xs">
        {text.detail.failureLog}
      </Text>
      {errors.map((line) => (
        <Text key={line.key} size="xs" className="verbatim">
          {line.message || line.raw}
        </Text>
      ))}
      <Anchor component="button" type="button" size="sm" onClick={onLogs}>
        {text.detail.allLogs}
      </Anchor>
    </>
  );
}
