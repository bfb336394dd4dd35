// Time, tokens, cost and id of a request.
import { Group, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useApi } from "../../api/context.ts";
import { tokensPerSecond } from "../../domain/chat.ts";
import type { Figures as Numbers } from "../../domain/conversations.ts";
import { text } from "../../text/playground.ts";
import { usd } from "../../ui/format.ts";
import { Link } from "../../ui/link.tsx";

const words = text.figures;

interface RowProps {
  readonly parts: readonly (string | false | undefined)[];
  readonly requestId: string;
}

function Row({ parts, requestId }: RowProps): ReactNode {
  return (
    <Group gap="xs" component="ul" className="figures" aria-label={words.label}>
      {parts.map(
        (part) =>
          typeof part === "string" &&
          part !== "" && (
            <Text key={part} component="li" size="xs" c="dimmed">
              {part}
            </Text>
          ),
      )}
      {requestId && (
        <Text component="li" size="xs" c="dimmed">
          {words.request} <Link to={`/request-log/${encodeURIComponent(requestId)}`}>{requestId}</Link>
        </Text>
      )}
    </Group>
  );
}

export function ChatFigures({ of, isPartial }: { of: Numbers; isPartial?: boolean }): ReactNode {
  const { usage, firstMs, totalMs, requestId, finishReason } = of;
  const rate = tokensPerSecond({ ...of, text: "", reasoning: "", toolCalls: [] });
  const cached = usage?.prompt_tokens_details?.cached_tokens ?? 0;
  return (
    <Row
      requestId={requestId}
      parts={[
        firstMs !== undefined && words.firstToken(firstMs),
        rate !== undefined && words.rate(rate),
        totalMs !== undefined && words.total(totalMs),
        usage && words.tokens(usage.prompt_tokens, usage.completion_tokens),
        cached > 0 && words.cached(cached),
        usage?.estimated_cost !== undefined && words.cost(usd(usage.estimated_cost)),
        isPartial ? text.stopped : finishReason === "length" && words.length,
      ]}
    />
  );
}

interface RunFiguresProps {
  readonly requestId: string;
  readonly totalMs: number;
  /** Known only where the response contains it; otherwise read from the request log. */
  readonly costUsd?: number | undefined;
  readonly parts?: readonly (string | undefined)[];
}

/** Figures of a request that is not a chat. */
export function RunFigures({ requestId, totalMs, costUsd, parts = [] }: RunFiguresProps): ReactNode {
  const charged = useCharged(costUsd === undefined ? requestId : "");
  const cost = costUsd ?? charged;
  return (
    <Row
      requestId={requestId}
      parts={[
        words.total(totalMs),
        ...parts,
        cost === undefined ? requestId !== "" && words.costLater : words.cost(usd(cost)),
      ]}
    />
  );
}

/** USD that the request log names. It is complete seconds after the request. */
function useCharged(requestId: string): number | undefined {
  const api = useApi();
  const { data } = useQuery({
    queryKey: ["charged", requestId],
    enabled: requestId !== "",
    retry: 8,
    retryDelay: 1500,
    queryFn: async () => {
      const path = `/v1/requests/${encodeURIComponent(requestId)}`;
      const { attempts } = await api.call<Responses["GET /v1/requests/{request_id}"]>("GET", path);
      return attempts.reduce((sum, { counts, cost }) => sum + (counts ? cost : 0), 0) / 100;
    },
  });
  return data;
}
