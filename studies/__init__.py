"""Study files: each is an example, a test and a page of the documentation."""
