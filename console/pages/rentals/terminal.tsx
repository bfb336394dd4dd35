// Page with a terminal of a container or an agent instance.
import { Alert, Button, Group, Skeleton, Stack, Text } from "@mantine/core";
import { IconInfoCircle } from "@tabler/icons-react";
import { lazy, type ReactNode, Suspense, useRef, useState } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useGet } from "../../api/hooks.ts";
import { useParam } from "../../app/router.tsx";
import type { Agent, Container } from "../../domain/rental.ts";
import { text as all } from "../../text/rentals.ts";
import { Command } from "../../ui/code.tsx";
import { Link } from "../../ui/link.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Page, Section } from "../../ui/page.tsx";

type Info = Responses["GET /v1/containers/{container_id}/terminal"];

const text = all.terminal;
const TerminalView = lazy(() => import("./terminal-view.tsx"));

export function ContainerTerminal(): ReactNode {
  const id = useParam("id");
  const path = `/v1/containers/${encodeURIComponent(id)}`;
  const { data } = useGet<Container>(path);
  const back = <Link to="/containers">{all.containers.title}</Link>;
  return <TerminalPage path={path} name={data?.name} back={back} command={`stoker container shell ${id}`} />;
}

export function AgentTerminal(): ReactNode {
  const id = useParam("id");
  const path = `/v1/agent/${encodeURIComponent(id)}`;
  const { data } = useGet<Agent>(path);
  const back = <Link to={`/agents/${encodeURIComponent(id)}`}>{data?.name ?? id}</Link>;
  return <TerminalPage path={path} name={data?.name} back={back} command={`stoker agent shell ${id}`} />;
}

interface TerminalPageProps {
  readonly path: string;
  readonly name: string | undefined;
  readonly back: ReactNode;
  readonly command: string;
}

function TerminalPage({ path, name, back, command }: TerminalPageProps): ReactNode {
  const info = useGet<Info>(`${path}/terminal`);
  return (
    <Page title={name === undefined ? text.title : text.titleOf(name)} about={back}>
      <Loaded query={info}>
        {({ available, reason }) =>
          available ? (
            <Shell path={path} />
          ) : (
            <Alert color="gray" variant="light" icon={<IconInfoCircle />} title={text.unavailable}>
              {reason}
            </Alert>
          )
        }
      </Loaded>
      <Section title={text.elsewhere}>
        <Command value={command} />
      </Section>
    </Page>
  );
}

/** One shell after the other: each opening has a number. */
function Shell({ path }: { path: string }): ReactNode {
  const [opening, setOpening] = useState(1);
  const [ended, setEnded] = useState<string | undefined>(undefined);
  const leave = useRef<HTMLButtonElement>(null);
  return (
    <Stack gap="xs">
      <Group justify="space-between">
        <Text size="sm" c="dimmed">
          {text.about}
        </Text>
        <Button
          ref={leave}
          size="xs"
          variant={ended === undefined ? "default" : "filled"}
          onClick={() => {
            if (ended === undefined) return setEnded(text.disconnected);
            setEnded(undefined);
            setOpening(opening + 1);
          }}
        >
          {ended === undefined ? text.disconnect : text.connect}
        </Button>
      </Group>
      {ended === undefined ? (
        <Suspense fallback={<Skeleton h={400} />}>
          <TerminalView key={opening} path={path} onEnd={setEnded} onLeave={() => leave.current?.focus()} />
        </Suspense>
      ) : (
        <Alert color="gray" variant="light" icon={<IconInfoCircle />} role="status">
          {ended}
        </Alert>
      )}
    </Stack>
  );
}
