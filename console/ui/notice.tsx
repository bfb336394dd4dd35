import { Alert, Anchor, Button, Group, Skeleton, Stack, Text } from "@mantine/core";
import { IconAlertTriangle, IconCircleX, IconEyeOff } from "@tabler/icons-react";
import type { ReactNode } from "react";
import { ApiError } from "../api/client.ts";
import type { Query } from "../api/hooks.ts";
import { text } from "../text/common.ts";
import { agoText } from "./format.ts";

/** Message of an error, with the request id. Nothing without an error. */
export function ErrorNotice({ error, onRetry }: { error: unknown; onRetry?: () => unknown }): ReactNode {
  if (error === undefined || error === null) return null;
  if (error instanceof ApiError && error.code === "not_for_operators")
    return (
      <Alert color="gray" variant="light" icon={<IconEyeOff />} role="status">
        {text.hidden}
      </Alert>
    );
  const message = error instanceof Error ? error.message : String(error);
  const { requestId, help } = error instanceof ApiError ? error : { requestId: "", help: "" };
  return (
    <Alert color="red" variant="light" icon={<IconCircleX />} role="alert" className="refused">
      <Text size="sm">
        {message}{" "}
        {help !== "" && (
          <Anchor href={help} target="_blank" inherit>
            {text.whatToDo}
          </Anchor>
        )}
      </Text>
      {requestId !== "" && (
        <Text size="xs" c="dimmed" mt={4}>
          {text.requestId(requestId)}
        </Text>
      )}
      {onRetry && (
        <Button size="xs" variant="light" color="red" mt="xs" onClick={() => void onRetry()}>
          {text.tryAgain}
        </Button>
      )}
    </Alert>
  );
}

interface LoadedProps<Value> {
  readonly query: Query<Value>;
  /** Shown while loading; by default some grey lines. */
  readonly skeleton?: ReactNode;
  readonly children: (value: Value) => ReactNode;
}

/** The value of a query; its loading state or error before. A value that could not be renewed is marked as stale. */
export function Loaded<Value>({ query, skeleton, children }: LoadedProps<Value>): ReactNode {
  const { data, error, dataUpdatedAt, refetch } = query;
  if (data === undefined) return error ? <ErrorNotice error={error} onRetry={refetch} /> : (skeleton ?? <Lines />);
  return (
    <>
      {error && (
        <Alert color="yellow" variant="light" icon={<IconAlertTriangle />} role="status" mb="md" className="stale">
          <Group gap="xs">
            <Text size="sm">
              {text.stale(agoText(dataUpdatedAt, Date.now()))} {error.message}
            </Text>
            <Button size="compact-xs" variant="light" color="yellow" onClick={() => void refetch()}>
              {text.tryAgain}
            </Button>
          </Group>
        </Alert>
      )}
      {children(data)}
    </>
  );
}

function Lines(): ReactNode {
  return (
    <Stack gap="sm" role="status" aria-label={text.loading}>
      {[100, 92, 96, 60].map((width) => (
        <Skeleton key={width} height={18} width={`${width}%`} />
      ))}
    </Stack>
  );
}
