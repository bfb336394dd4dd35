import { Modal, Text } from "@mantine/core";
import type { ReactNode } from "react";
import { text as common } from "../text/common.ts";
import { text } from "../text/sign-in.ts";
import { type SessionAnswer, SignInForm } from "./sign-in-form.tsx";
import { useVisitor } from "./visitor.ts";

/** Dialog in which the user signs in again. */
export function Reauthenticate({ onEnd }: { onEnd: (isDone: boolean) => void }): ReactNode {
  const { me } = useVisitor();
  const entered = async ({ uid }: SessionAnswer) => {
    // Another account signed in: discard this page.
    if (uid !== me.uid) location.reload();
    else onEnd(true);
  };
  return (
    <Modal
      opened
      onClose={() => onEnd(false)}
      title={text.signInAgain}
      closeButtonProps={{ "aria-label": common.cancel }}
      zIndex={400}
    >
      <Text size="sm" mb="md">
        {text.whyAgain}
      </Text>
      <SignInForm email={me.email ?? undefined} onEntered={entered} />
    </Modal>
  );
}
