"""What clients of services share: how one is asked, when it is asked again, and what is never shown of its address."""
