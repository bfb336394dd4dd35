import { Center, Stack } from "@mantine/core";
import type { ReactNode } from "react";
import { useVisitor } from "../../app/visitor.ts";
import { text } from "../../text/security.ts";
import { Act } from "../../ui/act.tsx";
import { Page } from "../../ui/page.tsx";
import { SecondFactors } from "./second-factors.tsx";

/** The only page of an account that lacks a required second factor. */
export function Enrol({ onDone }: { onDone: () => void }): ReactNode {
  const { signOut } = useVisitor();
  return (
    <Center p="md" component="main">
      <Stack w="100%" maw={640}>
        <Page title={text.enrol} actions={<Act label={text.signOut} onAct={signOut} />}>
          <SecondFactors onKept={onDone} />
        </Page>
      </Stack>
    </Center>
  );
}
