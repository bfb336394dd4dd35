// The call of the playground as code.
import { SegmentedControl, Stack, Text } from "@mantine/core";
import { IconCode } from "@tabler/icons-react";
import { type ReactNode, useState } from "react";
import { serverUrl, useVisitor } from "../../app/visitor.ts";
import { callCode } from "../../domain/call-snippets.ts";
import type { ChatRequest } from "../../domain/chat.ts";
import { chatExamples, type Dialect } from "../../domain/snippets.ts";
import { text } from "../../text/playground.ts";
import { listOf } from "../../ui/choice.tsx";
import { CodeTabs } from "../../ui/code.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { Link } from "../../ui/link.tsx";

function CodeDialog({ children }: { children: () => ReactNode }): ReactNode {
  return (
    <Dialog label={text.code} title={text.codeTitle} width="xl" isReading leftSection={<IconCode size={16} />}>
      {() => (
        <Stack gap="sm">
          <Text size="sm" c="dimmed">
            {text.codeAbout} <Link to="/keys">{text.createKey}</Link>
          </Text>
          {children()}
        </Stack>
      )}
    </Dialog>
  );
}

/** `requestOf` may throw: its message is shown. */
export function ChatCode({ requestOf }: { requestOf: () => ChatRequest }): ReactNode {
  return <CodeDialog>{() => <ChatExamples request={requestOf()} />}</CodeDialog>;
}

/** The same chat in three dialects and languages. */
export function ChatExamples({ request }: { request: ChatRequest }): ReactNode {
  const [dialect, setDialect] = useState<Dialect>("chat");
  const { newKey } = useVisitor();
  return (
    <Stack gap="xs">
      <SegmentedControl
        size="xs"
        aria-label={text.dialect}
        value={dialect}
        onChange={(value) => setDialect(value as Dialect)}
        data={listOf(text.dialects)}
        style={{ alignSelf: "flex-start" }}
      />
      <CodeTabs examples={chatExamples(dialect, { url: serverUrl(), key: newKey, request })} />
    </Stack>
  );
}

interface CallCodeProps {
  readonly model: string;
  readonly task: string;
  readonly body: Readonly<Record<string, unknown>>;
}

export function CallCode({ model, task, body }: CallCodeProps): ReactNode {
  return (
    <CodeDialog>{() => <CodeTabs examples={callCode({ url: serverUrl(), model, task, body }).examples} />}</CodeDialog>
  );
}
