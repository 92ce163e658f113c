// A link to a view leads there after the login, too: the address a form is sent to hands its fragment on.

const form = document.querySelector("form");
form.action = `/login${location.hash}`;
